// The drawing of the timeline: `view` says which device, what time, which rows, and what to mark.
const timelineDrawing = (data, canvas, view) => {
  const AXIS = 24, STEPS = 20, NARROW = 560;
  const context = canvas.getContext("2d");
  const range = document.getElementById("tl-range");
  const paint = { context, colors: {}, hatch: null };
  const { colors } = paint;

  const scale = {
    left: () => (canvas.clientWidth < NARROW ? 78 : 108),
    right: () => scale.left() + scale.width(),
    width: () => Math.max(canvas.clientWidth - scale.left(), 10),
    x: (time) => scale.left() + ((time - view.from) / (view.to - view.from)) * scale.width(),
    time: (px) => view.from + ((px - scale.left()) / scale.width()) * (view.to - view.from),
  };
  const { x } = scale;
  const drawRow = timelineBlocks(data, view, scale, paint);
  const last = () => view.rows[view.rows.length - 1];
  const height = () => last().top + last().high + 4;

  function readColors() {
    const probe = document.createElement("span");
    canvas.parentElement.append(probe);
    for (const name of ["ground", "raised", "line", "text", "quiet", "compute", "comm", "d2h",
      "h2d", "unified", "other", "opaque", "nvtx", "calls", "transfer", "transfer-line", "on-fill",
      "on-deep", "mark", "idle", "link", "host-fill"]) {
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
    paint.hatch = context.createPattern(tile, "repeat");
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
    context.rect(scale.left(), 0, scale.width(), height());
    context.clip();
    view.rows.forEach(drawRow);
    drawUnmeasured();
    if (view.select) drawSelected();
    if (view.mark) outline(view.mark.start, view.mark.end, AXIS + STEPS + 2, height() - AXIS - STEPS - 4);
    if (view.pin) drawPin();
    context.restore();
    drawGutter();
    const step = drawAxis();
    range.textContent =
      `${data.instant(view.from, step)} to ${data.instant(view.to, step)} ms (${data.span(Math.round(view.to - view.from))})`;
    Object.assign(canvas.dataset, {
      from: Math.round(view.from), to: Math.round(view.to), device: data.devices.indexOf(view.device),
    });
  }

  function drawAxis() {
    const rough = ((view.to - view.from) * 90) / scale.width();
    let step = 10 ** Math.floor(Math.log10(rough));
    step *= [1, 2, 5, 10].find((factor) => factor * step >= rough);
    context.fillStyle = colors.quiet;
    context.strokeStyle = colors.line;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const first = Math.ceil((data.origin + view.from) / step) * step - data.origin;
    for (let at = first; at <= view.to; at += step) {
      const px = Math.round(x(at)) + 0.5;
      context.beginPath();
      context.moveTo(px, AXIS - 6);
      context.lineTo(px, AXIS);
      context.stroke();
      const label = `${data.instant(at, step)} ms`;
      const half = context.measureText(label).width / 2;
      if (px - half > scale.left() && px + half < scale.right()) context.fillText(label, px - half, 9);
    }
    return step;
  }

  function drawSteps() {
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    view.device.steps.forEach(([start, end, label], i) => {
      const left = Math.max(x(start), scale.left()), right = Math.min(x(end), scale.right());
      if (right <= left) return;
      context.fillStyle = i % 2 ? colors.idle : colors.raised;
      context.fillRect(left, AXIS, right - left, height() - AXIS);
      context.fillStyle = colors.line;
      if (x(start) >= scale.left()) context.fillRect(Math.round(x(start)), AXIS, 1, height() - AXIS);
      if (x(end) <= scale.right()) context.fillRect(Math.round(x(end)), AXIS, 1, height() - AXIS);
      context.fillStyle = colors.text;
      const size = context.measureText(label).width;
      if (right - left > size + 8) context.fillText(label, (left + right - size) / 2, AXIS + STEPS / 2);
    });
  }

  function drawUnmeasured() {
    const edges = [view.device.from, ...view.device.measured.flat(), view.device.to];
    context.fillStyle = colors.ground;
    context.globalAlpha = 0.6;
    for (let i = 0; i < edges.length; i += 2) {
      const left = x(edges[i]) - (i ? 0 : 9e9), right = x(edges[i + 1]) + (i + 2 < edges.length ? 0 : 9e9);
      const low = Math.max(left, scale.left()), high = Math.min(right, scale.right());
      if (high > low) context.fillRect(low, AXIS + STEPS, high - low, height());
    }
    context.globalAlpha = 1;
  }

  // What lies outside fades, so that colours inside stay what they mean.
  function drawSelected() {
    const left = Math.max(x(view.select.start), scale.left()), right = Math.min(x(view.select.end), scale.right());
    context.fillStyle = colors.ground;
    context.globalAlpha = 0.6;
    context.fillRect(scale.left(), AXIS, left - scale.left(), height());
    context.fillRect(right, AXIS, scale.right() - right, height());
    context.globalAlpha = 1;
    context.fillStyle = colors.link;
    context.fillRect(left - 1, AXIS, 2, height());
    context.fillRect(right - 1, AXIS, 2, height());
    context.fillRect(left, AXIS, right - left, 3);
  }

  function drawPin() {
    const { lane, j } = view.pin;
    for (const row of view.rows) {
      if (row.kind !== "rate" && row.parts.includes(lane)) outline(lane.start[j], lane.end[j], row.top, row.high);
    }
  }

  function outline(start, end, top, high) {
    const left = x(start), right = Math.max(x(end), left + 2);
    context.strokeStyle = colors.mark;
    context.lineWidth = 2.5;
    context.strokeRect(left - 1.5, top, right - left + 3, high);
    context.lineWidth = 1;
  }

  function drawGutter() {
    context.fillStyle = colors.ground;
    context.fillRect(0, AXIS, scale.left() - 1, height() - AXIS);
    context.fillStyle = colors.line;
    context.fillRect(scale.left() - 1, AXIS, 1, height() - AXIS);
    context.textBaseline = "middle";
    const narrow = canvas.clientWidth < NARROW;
    for (const { title, below, top, high } of view.rows) {
      context.font = `${narrow || high < 20 ? 11 : 13}px system-ui, sans-serif`;
      context.fillStyle = colors.text;
      context.fillText(title, narrow ? 5 : 10, top + high / 2 - (below ? 7 : 0), scale.left() - 8);
      if (!below) continue;
      context.font = `${narrow ? 9.5 : 11}px system-ui, sans-serif`;
      context.fillStyle = colors.quiet;
      context.fillText(below, narrow ? 5 : 10, top + high / 2 + 8, scale.left() - 8);
    }
  }

  return { scale, draw, readColors };
};
