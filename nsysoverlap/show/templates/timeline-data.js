// The data of the timeline: columns as the page carries them, made ready to be searched.
const timelineData = (() => {
  const element = document.getElementById("tl-data");
  if (!element) return null;
  const data = JSON.parse(element.textContent);

  function spans(part) {
    const n = part.start.length;
    const start = new Float64Array(n), end = new Float64Array(n), reach = new Float64Array(n);
    let at = 0, far = -Infinity;
    for (let i = 0; i < n; i++) {
      at += part.start[i];
      start[i] = at;
      end[i] = at + part.length[i];
      far = Math.max(far, end[i]);
      // The latest end so far only grows, so that it can be searched although spans overlap.
      reach[i] = far;
    }
    return { ...part, start, end, reach, n: part.n, size: n };
  }

  for (const device of data.devices) {
    device.lanes = device.lanes.map(spans);
    for (const key of Object.keys(device.exposed)) device.exposed[key] = spans(device.exposed[key]);
    device.stretches = Object.entries(device.exposed).flatMap(([key, part]) =>
      Array.from(part.start, (start, i) => ({ key, start, end: part.end[i] })));
    device.stretches.sort((a, b) => a.start - b.start || a.end - b.end);
  }

  // Index of the first span that is not over at a time.
  data.firstAfter = (part, time) => {
    let low = 0, high = part.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (part.reach[middle] <= time) low = middle + 1; else high = middle;
    }
    return low;
  };

  // Index of the span at a time, of several the one that started last; -1 where there is none.
  data.at = (part, time, slack) => {
    let found = -1;
    for (let i = data.firstAfter(part, time - slack); i < part.size; i++) {
      if (part.start[i] > time + slack) break;
      if (part.end[i] >= time - slack) found = i;
    }
    return found;
  };

  const digits = (value, n) => value.toFixed(n);
  data.span = (ns) => {
    if (ns < 1e3) return `${ns} ns`;
    if (ns < 1e6) return `${digits(ns / 1e3, 1)} µs`;
    return ns < 1e10 ? `${digits(ns / 1e6, 1)} ms` : `${digits(ns / 1e9, 2)} s`;
  };
  data.instant = (ns, step = 1e3) => {
    const n = Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(step))));
    return digits((data.origin + ns) / 1e6, n);
  };
  data.bytes = (n) => {
    const units = ["B", "KiB", "MiB", "GiB"];
    let i = 0;
    for (; n >= 1024 && i < 3; i++) n /= 1024;
    return `${digits(n, i === 0 ? 0 : i === 3 ? 2 : 1)} ${units[i]}`;
  };
  return data;
})();
