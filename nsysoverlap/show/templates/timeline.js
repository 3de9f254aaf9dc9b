// The timeline at work: what is shown of which device, and where jumps lead.
(() => {
  const data = timelineData;
  const canvas = document.getElementById("tl-canvas");
  if (!data || !canvas || !data.devices.length) return;
  const element = (name) => document.getElementById(`tl-${name}`);
  const tip = element("tip"), hint = element("hint"), said = element("said"), back = element("back");
  const deviceChoice = element("device"), stepChoice = element("step"), find = element("find");
  const LONG = {
    compute: "compute", comm: "communication", d2h: "D2H, hidden", h2d: "H2D, hidden",
    unified: "unified memory", other: "other GPU work", opaque: "CUDA graphs recorded as a whole",
  };
  const LEAST = 50;
  const view = {
    device: data.devices[data.opened], from: 0, to: 1, mark: null, pin: null, select: null,
    rows: [], shown: { streams: false, host: false }, matches: new Set(),
  };
  const { made, TITLES } = timelineRows(data);
  const { scale, draw, readColors } = timelineDrawing(data, canvas, view);
  const panels = timelinePanels(data, view, TITLES);
  const state = timelineState(data, view);
  let frame = 0, origin = null, fading = 0;

  function redraw() {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
  }

  // Whether that moved anything: at the ends of the trace the page may scroll instead.
  function show(start, end) {
    const whole = view.device.to - view.device.from, edge = whole * 0.02;
    const size = Math.min(Math.max(end - start, LEAST), whole + 2 * edge);
    const from = Math.min(Math.max(start, view.device.from - edge), view.device.to + edge - size);
    const moved = Math.abs(from - view.from) + Math.abs(from + size - view.to) > size * 1e-6;
    Object.assign(view, { from, to: from + size });
    tip.hidden = true;
    redraw();
    state.keep();
    return moved;
  }
  const all = () => show(view.device.from, view.device.to);
  const pan = (share) => show(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);
  function zoom(factor, around = (view.from + view.to) / 2) {
    const size = Math.max((view.to - view.from) * factor, LEAST);
    const share = (around - view.from) / (view.to - view.from);
    return show(around - size * share, around + size * (1 - share));
  }

  function layOut() {
    view.rows = made(view.device, view.shown);
    for (const box of document.querySelectorAll("[data-rows]")) box.checked = view.shown[box.dataset.rows];
    redraw();
  }
  function pinned(pin) {
    view.pin = pin;
    panels.showPin();
    redraw();
    state.keep();
  }
  function selected(select) {
    view.select = select;
    panels.showSums();
    redraw();
    state.keep();
  }

  function choose(device) {
    view.device = device;
    view.mark = null;
    deviceChoice.value = data.devices.indexOf(device);
    stepChoice.replaceChildren(new Option("all", ""), ...device.steps.map(([, , label], j) => new Option(label, j)));
    element("step-label").hidden = !device.steps.length;
    const merged = device.lanes.filter((lane) => lane.activities > lane.size);
    const cut = Object.entries(device.exposed).filter(([, part]) => part.all > part.size);
    const jumps = cut.map(([key, part]) =>
      ` Of ${data.count(part.all)} exposed ${TITLES[key]} stretches the ${data.count(part.size)} longest can be jumped to.`);
    element("merged").textContent = merged.length
      ? `Neighbours are drawn as one block where a lane holds more than the page can: ${merged
        .map((lane) => `${TITLES[lane.kind]} ${data.count(lane.activities)} activities in ${data.count(lane.size)} blocks`)
        .join(", ")}. The widest gaps are kept; a block is filled as high as it was busy, and hatched as high as it was exposed.${jumps.join("")}`
      : "";
    drawLegend();
    layOut();
    pinned(null);
    selected(null);
    all();
  }

  function drawLegend() {
    const item = (kind, text) => {
      const li = document.createElement("li"), swatch = document.createElement("span");
      swatch.className = `swatch ${kind}`;
      li.append(swatch, text);
      return li;
    };
    const kinds = view.device.lanes.map((lane) => item(lane.kind, LONG[lane.kind]));
    element("legend").replaceChildren(item("transfer", "exposed transfer"), ...kinds);
  }

  function blockAt(px, py) {
    const row = view.rows.find((one) => py >= one.top && py <= one.top + one.high);
    if (!row || px < scale.left()) return null;
    const slack = (1.5 * (view.to - view.from)) / scale.width();
    for (const near of [0, slack]) {
      for (const lane of row.parts) {
        const j = data.at(lane, scale.time(px), near);
        if (j >= 0) return { lane, j };
      }
    }
    return null;
  }

  function focusOn(start, end, text) {
    view.mark = { start, end };
    const around = Math.max(end - start, LEAST) * 0.75;
    show(start - around, end + around);
    said.textContent = text;
  }

  function stretch(forward) {
    const list = view.device.stretches;
    // Pieces of a few microseconds between kernels are passed over while longer ones are left.
    const longest = list.reduce((most, one) => Math.max(most, one.end - one.start), 0);
    const long = list.filter((one) => (one.end - one.start) * 100 >= longest);
    if (!long.length) { said.textContent = "Nothing is exposed on this device."; return; }
    const here = view.mark ? view.mark.start : forward ? view.from - 1 : view.to;
    const next = forward ? long.find((one) => one.start > here) : long.findLast((one) => one.start < here);
    if (!next) { said.textContent = `No ${forward ? "later" : "earlier"} exposed stretch.`; return; }
    const lane = view.device.lanes.find((one) => one.kind === next.key);
    const j = lane ? data.at(lane, (next.start + next.end) / 2, 0) : -1;
    const name = j < 0 ? "" : `, ${data.names[lane.name[j]]}`;
    focusOn(next.start, next.end, `${TITLES[next.key]} exposed ${data.span(next.end - next.start)} from ${data.instant(next.start)} to ${data.instant(next.end)} ms${name}`);
  }

  function step(move) {
    if (!view.device.steps.length) return;
    const middle = (view.from + view.to) / 2;
    const now = view.device.steps.findIndex(([start, end]) => middle >= start && middle < end);
    showStep(Math.min(Math.max(now + move, 0), view.device.steps.length - 1));
  }
  function showStep(i) {
    const [start, end, label] = view.device.steps[i];
    view.mark = null;
    stepChoice.value = i;
    show(start, end);
    selected({ start, end });
    said.textContent = `${label}: ${data.span(end - start)}`;
  }

  // All blocks whose name holds some words, by time; those of the device that is shown.
  function matching(words) {
    view.matches = new Set();
    if (!words) return [];
    data.names.forEach((name, i) => { if (name.toLowerCase().includes(words)) view.matches.add(i); });
    const found = [...view.device.lanes, ...(view.shown.host ? view.device.host : [])].flatMap((lane) =>
      Array.from(lane.name, (name, j) => ({ lane, j, name })).filter(({ name }) => view.matches.has(name)));
    return found.sort((a, b) => a.lane.start[a.j] - b.lane.start[b.j]);
  }
  let matches = [];
  function searchFor() {
    matches = matching(find.value.trim().toLowerCase());
    said.textContent = find.value.trim() ? `${data.count(matches.length)} found; Enter goes to the next.` : "";
    redraw();
  }
  function nextMatch(forward) {
    if (!matches.length) return;
    const now = view.pin ? matches.findIndex(({ lane, j }) => lane === view.pin.lane && j === view.pin.j) : -1;
    const i = now < 0 && !forward ? matches.length - 1 : (now + (forward ? 1 : -1) + matches.length) % matches.length;
    goTo(matches[i], `${i + 1} of ${data.count(matches.length)}: `);
  }
  function goTo({ lane, j }, before = "") {
    pinned({ lane, j });
    focusOn(lane.start[j], lane.end[j], before + panels.describe(lane, j).join(", "));
  }

  // The most exposed, else the longest block of a name; of the device that is shown, else of any.
  function blockOf(name, kind) {
    let best = null;
    for (const device of [view.device, ...data.devices]) {
      if (best) break;
      for (const lane of device.lanes.filter((one) => one.kind === kind)) {
        for (let j = 0; j < lane.size; j++) {
          const text = data.names[lane.name[j]];
          if (text !== name && !text.startsWith(`${name} (`)) continue;
          const weight = lane.exposed ? lane.exposed[j] : lane.end[j] - lane.start[j];
          if (!best || weight > best.weight) best = { device, lane, j, weight };
        }
      }
    }
    return best;
  }

  function jump(button) {
    const { device, start, end, find: name, lane, step: label } = button.dataset;
    const block = name === undefined ? null : blockOf(name, lane);
    if (name !== undefined && !block) { said.textContent = `${name}: drawn within blocks of other names.`; return; }
    state.leave();
    origin = button;
    back.hidden = false;
    const wanted = block ? block.device : data.devices[Number(device || 0)];
    if (wanted !== view.device) choose(wanted);
    if (block) goTo(block);
    else if (start !== undefined) focusOn(Number(start) - data.origin, Number(end) - data.origin, button.textContent);
    else if (label !== undefined) showStep(wanted.steps.findIndex(([, , text]) => text.split(",")[0] === label));
    else { all(); said.textContent = wanted.name; }
    document.getElementById("timeline").scrollIntoView();
    canvas.focus({ preventScroll: true });
  }
  function goBack() {
    if (!origin) return;
    origin.scrollIntoView({ block: "center" });
    origin.focus({ preventScroll: true });
    origin = null;
    back.hidden = true;
  }

  function restore() {
    const wanted = state.read(location.hash);
    if (!wanted) return false;
    for (const name of Object.keys(view.shown)) view.shown[name] = wanted.rows.includes(name);
    choose(wanted.device);
    show(wanted.start, wanted.end);
    pinned(wanted.pin);
    selected(wanted.select);
    return true;
  }

  const act = {
    all, pan, zoom, stretch, step, back: goBack,
    hover: (px, py) => {
      const found = blockAt(px, py);
      tip.hidden = !found;
      if (!found) return;
      tip.textContent = panels.describe(found.lane, found.j).join("\n");
      const left = px + 14 + tip.offsetWidth > canvas.clientWidth ? px - 14 - tip.offsetWidth : px + 14;
      tip.style.left = `${Math.max(left, 2)}px`;
      tip.style.top = `${Math.max(Math.min(py + 12, canvas.clientHeight - tip.offsetHeight - 2), 2)}px`;
    },
    leave: () => { tip.hidden = true; },
    pin: (px, py) => { tip.hidden = true; pinned(blockAt(px, py)); },
    select: (one, two) => {
      tip.hidden = true;
      selected({ start: Math.round(Math.min(one, two)), end: Math.max(Math.round(Math.max(one, two)), Math.round(Math.min(one, two)) + 1) });
    },
    selectView: () => act.select(view.from, view.to),
    fit: () => {
      const one = view.pin ? { start: view.pin.lane.start[view.pin.j], end: view.pin.lane.end[view.pin.j] } : view.select;
      if (one) show(one.start - (one.end - one.start) * 0.1, one.end + (one.end - one.start) * 0.1);
    },
    search: () => find.focus(),
    clear: () => { view.mark = null; tip.hidden = true; pinned(null); selected(null); },
    explain: () => {
      hint.hidden = false;
      clearTimeout(fading);
      fading = setTimeout(() => { hint.hidden = true; }, 1500);
    },
  };
  timelineInput(canvas, scale, act);

  const actions = {
    left: () => pan(-0.25), right: () => pan(0.25), in: () => zoom(0.5), out: () => zoom(2), all,
    next: () => stretch(true), previous: () => stretch(false), fit: act.fit, sum: act.selectView,
    unpin: () => pinned(null), unselect: () => selected(null), back: goBack,
  };
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", actions[button.dataset.do]);
  }
  for (const box of document.querySelectorAll("[data-rows]")) {
    box.addEventListener("change", () => { view.shown[box.dataset.rows] = box.checked; layOut(); state.keep(); });
  }
  for (const button of document.querySelectorAll(".jump")) button.addEventListener("click", () => jump(button));
  deviceChoice.addEventListener("change", () => choose(data.devices[Number(deviceChoice.value)]));
  stepChoice.addEventListener("change", () => {
    if (stepChoice.value === "") all(); else showStep(Number(stepChoice.value));
  });
  find.addEventListener("input", searchFor);
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); nextMatch(!event.shiftKey); }
    if (event.key === "Escape") { find.value = ""; searchFor(); canvas.focus({ preventScroll: true }); }
  });
  addEventListener("popstate", () => {
    if (!restore() && !location.hash) choose(data.devices[data.opened]);
  });
  document.addEventListener("themechange", () => { readColors(); redraw(); });
  new ResizeObserver(redraw).observe(canvas.parentElement);
  readColors();
  choose(view.device);
  state.begin();
  if (restore()) document.getElementById("timeline").scrollIntoView();
})();
