(() => {
  const data = timelineData;
  const canvas = document.getElementById("tl-canvas");
  if (!data || !canvas || !data.devices.length) return;
  const tip = document.getElementById("tl-tip");
  const said = document.getElementById("tl-said");
  const deviceChoice = document.getElementById("tl-device");
  const stepChoice = document.getElementById("tl-step");
  const LONG = {
    compute: "compute", comm: "communication", d2h: "D2H, hidden", h2d: "H2D, hidden",
    unified: "unified memory", other: "other GPU work", opaque: "CUDA graphs recorded as a whole",
  };
  const view = { device: data.devices[0], from: 0, to: 1, mark: null };
  const { LEFT, LANE, TITLES, width, time, laneTop, draw, readColors } = timelineDrawing(data, canvas, view);
  const LEAST = 50;
  let frame = 0;

  function redraw() {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
  }

  function show(start, end) {
    const whole = view.device.to - view.device.from, edge = whole * 0.02;
    const size = Math.min(Math.max(end - start, LEAST), whole + 2 * edge);
    view.from = Math.min(Math.max(start, view.device.from - edge), view.device.to + edge - size);
    view.to = view.from + size;
    hideTip();
    redraw();
  }
  const all = () => show(view.device.from, view.device.to);
  const pan = (share) => show(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);
  function zoom(factor, around = (view.from + view.to) / 2) {
    const size = Math.max((view.to - view.from) * factor, LEAST);
    const share = (around - view.from) / (view.to - view.from);
    show(around - size * share, around + size * (1 - share));
  }

  function choose(i) {
    view.device = data.devices[i];
    deviceChoice.value = i;
    view.mark = null;
    stepChoice.replaceChildren(new Option("all", ""), ...view.device.steps.map(([, , label], j) => new Option(label, j)));
    document.getElementById("tl-step-label").hidden = !view.device.steps.length;
    const merged = view.device.lanes.filter((lane) => lane.activities > lane.size);
    const cut = Object.entries(view.device.exposed).filter(([, part]) => part.all > part.size);
    const jumps = cut.map(([key, part]) =>
      ` Of ${part.all.toLocaleString("en")} exposed ${TITLES[key]} stretches the ${part.size.toLocaleString("en")} longest can be jumped to.`);
    document.getElementById("tl-merged").textContent = merged.length
      ? `Neighbours are drawn as one block where a lane holds more than the page can: ${merged
        .map((lane) => `${TITLES[lane.kind]} ${lane.activities.toLocaleString("en")} activities in ${lane.size.toLocaleString("en")} blocks`)
        .join(", ")}. The widest gaps are kept; a block is filled as high as it was busy, and hatched as high as it was exposed.${jumps.join("")}`
      : "";
    drawLegend();
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
    document.getElementById("tl-legend").replaceChildren(item("transfer", "exposed transfer"), ...kinds);
  }

  function blockText(lane, j) {
    const n = lane.n ? lane.n[j] : 1;
    const length = lane.end[j] - lane.start[j];
    const lines = [data.names[lane.name[j]]];
    if (n > 1) {
      lines[0] = `${n.toLocaleString("en")} activities, the longest ${lines[0]}`;
      lines.push(`busy ${data.span(lane.busy[j])} of ${data.span(length)}`);
    }
    lines.push(`${TITLES[lane.kind]} on stream ${lane.stream[j]}, ${data.span(length)}`);
    if (lane.bytes && lane.bytes[j]) {
      const busy = lane.busy ? lane.busy[j] : length;
      lines.push(`${data.bytes(lane.bytes[j])} at ${(lane.bytes[j] / Math.max(busy, 1)).toFixed(1)} GB/s`);
    }
    if (view.device.exposed[lane.kind]) {
      lines.push(`exposed ${data.span(lane.exposed ? lane.exposed[j] : 0)}`);
    }
    lines.push(`${data.instant(lane.start[j])} to ${data.instant(lane.end[j])} ms`);
    return lines.join("\n");
  }

  function blockAt(px, py) {
    const i = view.device.lanes.findIndex((_, at) => py >= laneTop(at) && py <= laneTop(at) + LANE);
    if (i < 0 || px < LEFT) return null;
    const j = data.at(view.device.lanes[i], time(px), (1.5 * (view.to - view.from)) / width());
    return j < 0 ? null : { lane: view.device.lanes[i], i, j };
  }

  function showTip(event) {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    const found = blockAt(px, py);
    if (!found) { hideTip(); return; }
    tip.textContent = blockText(found.lane, found.j);
    tip.hidden = false;
    const left = px + 14 + tip.offsetWidth > canvas.clientWidth ? px - 14 - tip.offsetWidth : px + 14;
    tip.style.left = `${Math.max(left, 2)}px`;
    tip.style.top = `${Math.max(Math.min(py + 12, canvas.clientHeight - tip.offsetHeight - 2), 2)}px`;
  }
  function hideTip() { tip.hidden = true; }

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
    said.textContent = `${label}: ${data.span(end - start)}`;
  }

  const actions = {
    left: () => pan(-0.25), right: () => pan(0.25), in: () => zoom(0.5), out: () => zoom(2), all,
    next: () => stretch(true), previous: () => stretch(false),
  };
  const keys = {
    ArrowLeft: actions.left, ArrowRight: actions.right, "+": actions.in, "=": actions.in,
    "-": actions.out, Enter: actions.in, 0: all, Home: all, n: actions.next, p: actions.previous,
    "[": () => step(-1), "]": () => step(1), Escape: () => { view.mark = null; hideTip(); redraw(); },
  };
  canvas.addEventListener("keydown", (event) => {
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) / width());
    } else {
      const px = event.clientX - canvas.getBoundingClientRect().left;
      zoom(1.0015 ** event.deltaY, time(Math.max(px, LEFT)));
    }
  }, { passive: false });

  let grabbed = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    grabbed = { at: event.clientX, from: view.from, to: view.to };
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("grabbed");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!grabbed) { showTip(event); return; }
    const moved = ((event.clientX - grabbed.at) / width()) * (grabbed.to - grabbed.from);
    show(grabbed.from - moved, grabbed.to - moved);
  });
  const release = () => { grabbed = null; canvas.classList.remove("grabbed"); };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("dblclick", (event) => {
    zoom(0.25, time(event.clientX - canvas.getBoundingClientRect().left));
  });

  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", actions[button.dataset.do]);
  }
  deviceChoice.addEventListener("change", () => choose(Number(deviceChoice.value)));
  stepChoice.addEventListener("change", () => {
    if (stepChoice.value === "") all(); else showStep(Number(stepChoice.value));
  });
  for (const button of document.querySelectorAll(".jump")) {
    button.addEventListener("click", () => {
      choose(Number(button.dataset.device));
      document.getElementById("timeline").scrollIntoView();
      canvas.focus({ preventScroll: true });
      focusOn(Number(button.dataset.start) - data.origin, Number(button.dataset.end) - data.origin, button.textContent);
    });
  }
  document.addEventListener("themechange", () => { readColors(); redraw(); });
  new ResizeObserver(redraw).observe(canvas.parentElement);
  readColors();
  choose(0);
})();
