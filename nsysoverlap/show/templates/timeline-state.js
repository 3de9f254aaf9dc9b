// What is shown, in the fragment of the address: #t=device,from,to with s, p and r if there are any.
// Times are those of the trace in ns, so that an address can be written by hand.
const timelineState = (data, view) => {
  const LATER_MS = 250;
  let timer = 0, start = "";
  const initial = () => text() === start && !location.hash.startsWith("#t=");

  function text() {
    const ns = (time) => Math.round(time + data.origin);
    const parts = [`t=${data.devices.indexOf(view.device)},${ns(view.from)},${ns(view.to)}`];
    if (view.select) parts.push(`s=${ns(view.select.start)},${ns(view.select.end)}`);
    if (view.pin) parts.push(`p=${view.pin.lane.kind},${ns(view.pin.lane.start[view.pin.j])}`);
    const rows = Object.keys(view.shown).filter((name) => view.shown[name]);
    if (rows.length) parts.push(`r=${rows.join(",")}`);
    return `#${parts.join("&")}`;
  }

  // What a fragment asks for; null for one that is not ours, or not sound.
  function read(fragment) {
    const parts = Object.fromEntries(fragment.slice(1).split("&").map((part) => part.split("=", 2)));
    const pair = (value) => {
      const [start, end] = value.split(",").map((ns) => Number(ns) - data.origin);
      return Number.isFinite(start) && end > start ? { start, end } : null;
    };
    const [number, ...times] = (parts.t || "").split(",");
    const device = data.devices[Number(number)], shown = pair(times.join(","));
    if (!parts.t || !device || !shown) return null;
    const rows = (parts.r || "").split(",");
    const state = { device, ...shown, select: parts.s ? pair(parts.s) : null, rows, pin: null };
    const [kind, start] = (parts.p || "").split(",");
    const lane = [...device.lanes, ...device.host].find((one) => one.kind === kind
      && one.start.includes(Number(start) - data.origin));
    if (lane) state.pin = { lane, j: lane.start.indexOf(Number(start) - data.origin) };
    return state;
  }

  return {
    read,
    begin: () => { start = text(); },
    // Not at once: a drag would write a hundred addresses, which browsers refuse.
    keep: () => {
      clearTimeout(timer);
      timer = setTimeout(() => { if (!initial()) history.replaceState(null, "", text()); }, LATER_MS);
    },
    // A jump is a place of its own to come back from.
    leave: () => {
      clearTimeout(timer);
      if (!initial()) history.replaceState(null, "", text());
      history.pushState(null, "", text());
    },
  };
};
