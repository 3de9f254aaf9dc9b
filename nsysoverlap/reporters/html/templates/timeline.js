(() => {
  const data = timelineData;
  const canvas = document.getElementById("tl-canvas");
  if (!data || !canvas || !data.devices.length) return;
  const tip = document.getElementById("tl-tip");
  const said = document.getElementById("tl-said");
  const range = document.getElementById("tl-range");
  const deviceChoice = document.getElementById("tl-device");
  const stepChoice = document.getElementById("tl-step");
  const context = canvas.getContext("2d");
  const LEFT = 92, AXIS = 24, STEPS = 20, LANE = 34, GAP = 8, LEAST = 50;
  const TITLES = {
    compute: "compute", comm: "comm", d2h: "D2H", h2d: "H2D", other: "other", opaque: "graphs",
  };
  const LONG = {
    compute: "compute", comm: "communication", d2h: "D2H, hidden", h2d: "H2D, hidden",
    other: "other GPU work", opaque: "CUDA graphs recorded as a whole",
  };
  let device = data.devices[0], from = 0, to = 1, mark = null, colors = {}, hatch = null, frame = 0;

  const width = () => Math.max(canvas.clientWidth - LEFT, 10);
  const x = (time) => LEFT + ((time - from) / (to - from)) * width();
  const time = (px) => from + ((px - LEFT) / width()) * (to - from);
  const laneTop = (i) => AXIS + STEPS + GAP + i * (LANE + GAP);
  const height = () => laneTop(device.lanes.length) + 4;

  function readColors() {
    const probe = document.createElement("span");
    canvas.parentElement.append(probe);
    for (const name of ["ground", "raised", "line", "text", "quiet", "compute", "comm", "d2h",
      "h2d", "other", "opaque", "transfer", "transfer-line", "on-fill", "mark", "idle"]) {
      probe.style.color = `var(--${name})`;
      colors[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.fillStyle = colors.transfer;
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = colors["transfer-line"];
    pen.lineWidth = 2;
    pen.beginPath();
    for (const shift of [-8, 0, 8]) { pen.moveTo(shift - 1, 9); pen.lineTo(shift + 9, -1); }
    pen.stroke();
    hatch = context.createPattern(tile, "repeat");
  }

  function redraw() {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
  }

  function draw() {
    const ratio = devicePixelRatio || 1;
    canvas.style.height = `${height()}px`;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(height() * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colors.ground;
    context.fillRect(0, 0, canvas.clientWidth, height());
    drawSteps();
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width(), height());
    context.clip();
    device.lanes.forEach(drawLane);
    drawUnmeasured();
    if (mark) drawMark();
    context.restore();
    drawGutter();
    const step = drawAxis();
    range.textContent =
      `${data.instant(from, step)} to ${data.instant(to, step)} ms (${data.span(Math.round(to - from))})`;
    Object.assign(canvas.dataset, {
      from: Math.round(from), to: Math.round(to), device: data.devices.indexOf(device),
    });
  }

  function drawAxis() {
    const rough = ((to - from) * 90) / width();
    let step = 10 ** Math.floor(Math.log10(rough));
    step *= [1, 2, 5, 10].find((factor) => factor * step >= rough);
    context.fillStyle = colors.quiet;
    context.strokeStyle = colors.line;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const first = Math.ceil((data.origin + from) / step) * step - data.origin;
    for (let at = first; at <= to; at += step) {
      const px = Math.round(x(at)) + 0.5;
      context.beginPath();
      context.moveTo(px, AXIS - 6);
      context.lineTo(px, AXIS);
      context.stroke();
      const label = `${data.instant(at, step)} ms`;
      const half = context.measureText(label).width / 2;
      if (px - half > LEFT && px + half < LEFT + width()) context.fillText(label, px - half, 9);
    }
    return step;
  }

  function drawSteps() {
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    device.steps.forEach(([start, end, label], i) => {
      const left = Math.max(x(start), LEFT), right = Math.min(x(end), LEFT + width());
      if (right <= left) return;
      context.fillStyle = i % 2 ? colors.idle : colors.raised;
      context.fillRect(left, AXIS, right - left, height() - AXIS);
      context.fillStyle = colors.line;
      if (x(start) >= LEFT) context.fillRect(Math.round(x(start)), AXIS, 1, height() - AXIS);
      if (x(end) <= LEFT + width()) context.fillRect(Math.round(x(end)), AXIS, 1, height() - AXIS);
      context.fillStyle = colors.text;
      const size = context.measureText(label).width;
      if (right - left > size + 8) context.fillText(label, (left + right - size) / 2, AXIS + STEPS / 2);
    });
  }

  function drawLane(lane, i) {
    const top = laneTop(i);
    context.fillStyle = colors.line;
    context.fillRect(LEFT, top + LANE, width(), 1);
    drawSpans(lane, top, colors[lane.kind]);
    const exposed = device.exposed[lane.kind];
    if (exposed) drawSpans(exposed, top, hatch);
    context.font = "11.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let j = data.firstAfter(lane, from); j < lane.size && lane.start[j] < to; j++) {
      const left = Math.max(x(lane.start[j]), LEFT), right = Math.min(x(lane.end[j]), LEFT + width());
      if (right - left > 56) drawName(lane, j, left, right, top);
    }
  }

  function drawSpans(part, top, fill) {
    context.fillStyle = fill;
    let drawn = -1;
    for (let j = data.firstAfter(part, from); j < part.size && part.start[j] < to; j++) {
      const left = x(part.start[j]), right = x(part.end[j]);
      if (right - left >= 2) {
        // A hairline between neighbours that touch shows that they are two.
        context.fillRect(Math.max(left, LEFT - 2), top, Math.min(right, LEFT + width() + 2) - Math.max(left, LEFT - 2) - 0.5, LANE);
      } else if (Math.floor(left * 2) !== drawn) {
        drawn = Math.floor(left * 2);
        context.fillRect(left, top, Math.max(right - left, 0.75), LANE);
      }
    }
  }

  function drawName(lane, j, left, right, top) {
    const many = lane.n && lane.n[j] > 1 ? `${lane.n[j].toLocaleString("en")}× ` : "";
    let text = many + data.names[lane.name[j]];
    const room = right - left - 10;
    let size = context.measureText(text).width;
    while (size > room && text.length > 4) {
      text = `${text.slice(0, Math.min(Math.floor((text.length * room) / size), text.length - 1) - 1)}…`;
      size = context.measureText(text).width;
    }
    if (size > room) return;
    const exposed = lane.exposed && lane.exposed[j] > 0;
    if (exposed) {
      context.fillStyle = colors.ground;
      context.globalAlpha = 0.86;
      context.fillRect(left + 3, top + LANE / 2 - 8, size + 6, 16);
      context.globalAlpha = 1;
    }
    context.fillStyle = exposed ? colors.text : colors["on-fill"];
    context.fillText(text, left + 6, top + LANE / 2 + 0.5);
  }

  function drawUnmeasured() {
    const edges = [device.from, ...device.measured.flat(), device.to];
    context.fillStyle = colors.ground;
    context.globalAlpha = 0.6;
    for (let i = 0; i < edges.length; i += 2) {
      const left = x(edges[i]) - (i ? 0 : 9e9), right = x(edges[i + 1]) + (i + 2 < edges.length ? 0 : 9e9);
      const low = Math.max(left, LEFT), high = Math.min(right, LEFT + width());
      if (high > low) context.fillRect(low, AXIS + STEPS, high - low, height());
    }
    context.globalAlpha = 1;
  }

  function drawMark() {
    const left = x(mark.start), right = Math.max(x(mark.end), left + 2);
    context.strokeStyle = colors.mark;
    context.lineWidth = 2.5;
    context.strokeRect(left - 1.5, AXIS + STEPS + 2, right - left + 3, height() - AXIS - STEPS - 4);
    context.lineWidth = 1;
  }

  function drawGutter() {
    context.fillStyle = colors.ground;
    context.fillRect(0, AXIS, LEFT - 1, height() - AXIS);
    context.fillStyle = colors.line;
    context.fillRect(LEFT - 1, AXIS, 1, height() - AXIS);
    context.textBaseline = "middle";
    context.font = "13px system-ui, sans-serif";
    device.lanes.forEach((lane, i) => {
      context.fillStyle = colors.text;
      context.fillText(TITLES[lane.kind], 10, laneTop(i) + LANE / 2);
    });
  }

  function show(start, end) {
    const whole = device.to - device.from, edge = whole * 0.02;
    const size = Math.min(Math.max(end - start, LEAST), whole + 2 * edge);
    from = Math.min(Math.max(start, device.from - edge), device.to + edge - size);
    to = from + size;
    hideTip();
    redraw();
  }
  const all = () => show(device.from - (device.to - device.from) * 0.01, device.to + (device.to - device.from) * 0.01);
  const pan = (share) => show(from + (to - from) * share, to + (to - from) * share);
  function zoom(factor, around = (from + to) / 2) {
    const size = Math.max((to - from) * factor, LEAST);
    const share = (around - from) / (to - from);
    show(around - size * share, around + size * (1 - share));
  }

  function choose(i) {
    device = data.devices[i];
    deviceChoice.value = i;
    mark = null;
    stepChoice.replaceChildren(new Option("all", ""), ...device.steps.map(([, , label], j) => new Option(label, j)));
    document.getElementById("tl-step-label").hidden = !device.steps.length;
    const merged = device.lanes.filter((lane) => lane.activities > lane.size);
    document.getElementById("tl-merged").textContent = merged.length
      ? `Neighbours are drawn as one block where a lane holds more than the page can: ${merged
        .map((lane) => `${TITLES[lane.kind]} ${lane.activities.toLocaleString("en")} activities in ${lane.size.toLocaleString("en")} blocks`)
        .join(", ")}. The widest gaps are kept, and each block says what it holds.`
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
    const kinds = device.lanes.map((lane) => item(lane.kind, LONG[lane.kind]));
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
    if (device.exposed[lane.kind]) {
      lines.push(`exposed ${data.span(lane.exposed ? lane.exposed[j] : 0)}`);
    }
    lines.push(`${data.instant(lane.start[j])} to ${data.instant(lane.end[j])} ms`);
    return lines.join("\n");
  }

  function blockAt(px, py) {
    const i = device.lanes.findIndex((_, at) => py >= laneTop(at) && py <= laneTop(at) + LANE);
    if (i < 0 || px < LEFT) return null;
    const j = data.at(device.lanes[i], time(px), (1.5 * (to - from)) / width());
    return j < 0 ? null : { lane: device.lanes[i], i, j };
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
    mark = { start, end };
    const around = Math.max(end - start, LEAST) * 0.75;
    show(start - around, end + around);
    said.textContent = text;
  }

  function stretch(forward) {
    const list = device.stretches;
    // Pieces of a few microseconds between kernels are passed over while longer ones are left.
    const longest = list.reduce((most, one) => Math.max(most, one.end - one.start), 0);
    const long = list.filter((one) => (one.end - one.start) * 100 >= longest);
    if (!long.length) { said.textContent = "Nothing is exposed on this device."; return; }
    const here = mark ? mark.start : forward ? from - 1 : to;
    const next = forward ? long.find((one) => one.start > here) : long.findLast((one) => one.start < here);
    if (!next) { said.textContent = `No ${forward ? "later" : "earlier"} exposed stretch.`; return; }
    const lane = device.lanes.find((one) => one.kind === next.key);
    const j = lane ? data.at(lane, (next.start + next.end) / 2, 0) : -1;
    const name = j < 0 ? "" : `, ${data.names[lane.name[j]]}`;
    focusOn(next.start, next.end, `${TITLES[next.key]} exposed ${data.span(next.exposed)} from ${data.instant(next.start)} to ${data.instant(next.end)} ms${name}`);
  }

  function step(move) {
    if (!device.steps.length) return;
    const middle = (from + to) / 2;
    const now = device.steps.findIndex(([start, end]) => middle >= start && middle < end);
    showStep(Math.min(Math.max(now + move, 0), device.steps.length - 1));
  }
  function showStep(i) {
    const [start, end, label] = device.steps[i];
    mark = null;
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
    "[": () => step(-1), "]": () => step(1), Escape: () => { mark = null; hideTip(); redraw(); },
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
    grabbed = { at: event.clientX, from, to };
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
