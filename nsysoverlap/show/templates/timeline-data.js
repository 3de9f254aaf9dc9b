// The data of the timeline: columns as the page carries them, made ready to be searched.
const timelineData = (() => {
  const element = document.getElementById("tl-data");
  if (!element) return null;
  const data = JSON.parse(element.textContent);

  const summed = (steps) => {
    let at = 0;
    return Float64Array.from(steps, (step) => (at += step));
  };

  function spans(part) {
    const start = summed(part.start), n = start.length;
    return { ...part, ...reaching(start, start.map((at, i) => at + part.length[i])), n: part.n, size: n };
  }

  // The latest end so far only grows, so that it can be searched although spans overlap.
  function reaching(start, end) {
    let far = -Infinity;
    return { start, end, reach: end.map((at) => (far = Math.max(far, at))) };
  }

  for (const device of data.devices) {
    device.lanes = device.lanes.map(spans);
    device.host = device.host.map(spans);
    if (device.curve) {
      const bytes = summed(device.curve.bytes);
      device.curve = { at: summed(device.curve.at), bytes, most: bytes.reduce((a, b) => Math.max(a, b), 1) };
    }
    for (const key of Object.keys(device.exposed)) device.exposed[key] = spans(device.exposed[key]);
    device.stretches = Object.entries(device.exposed).flatMap(([key, part]) =>
      Array.from(part.start, (start, i) => ({ key, start, end: part.end[i] })));
    device.stretches.sort((a, b) => a.start - b.start || a.end - b.end);
  }

  // The blocks of a lane that `keep` picks, as a lane; null without any.
  data.picked = (lane, keep) => {
    const index = [];
    for (let j = 0; j < lane.size; j++) if (keep(j)) index.push(j);
    if (!index.length) return null;
    const part = { ...lane, size: index.length };
    for (const key of ["name", "stream", "n", "busy", "bytes", "estimated", "exposed"]) {
      if (lane[key]) part[key] = index.map((j) => lane[key][j]);
    }
    const column = (key) => Float64Array.from(index, (j) => lane[key][j]);
    return Object.assign(part, reaching(column("start"), column("end")));
  };

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

  // GB/s of a block: of its recorded bytes over the time that they moved; 0 where not known.
  data.rate = (lane, j) => {
    if (!lane.bytes || (lane.estimated && lane.estimated[j])) return 0;
    return lane.bytes[j] / Math.max(lane.busy ? lane.busy[j] : lane.end[j] - lane.start[j], 1);
  };

  const digits = (value, n) => value.toFixed(n);
  data.span = (ns) => {
    if (ns < 1e3) return `${Math.round(ns)} ns`;
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
  data.count = (n) => Math.round(n).toLocaleString("en");
  return data;
})();
