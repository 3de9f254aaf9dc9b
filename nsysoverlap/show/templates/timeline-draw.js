// The drawing of the timeline: `view` says which device, what time, and what to mark.
const timelineDrawing = (data, canvas, view) => {
  const LEFT = 92, AXIS = 24, STEPS = 20, LANE = 34, GAP = 8;
  const TITLES = {
    compute: "compute", comm: "comm", d2h: "D2H", h2d: "H2D", unified: "unified", other: "other", opaque: "graphs",
  };
  const context = canvas.getContext("2d");
  const range = document.getElementById("tl-range");
  let colors = {}, hatch = null;

  const width = () => Math.max(canvas.clientWidth - LEFT, 10);
  const x = (time) => LEFT + ((time - view.from) / (view.to - view.from)) * width();
  const time = (px) => view.from + ((px - LEFT) / width()) * (view.to - view.from);
  const laneTop = (i) => AXIS + STEPS + GAP + i * (LANE + GAP);
  const height = () => laneTop(view.device.lanes.length) + 4;

  function readColors() {
    const probe = document.createElement("span");
    canvas.parentElement.append(probe);
    for (const name of ["ground", "raised", "line", "text", "quiet", "compute", "comm", "d2h",
      "h2d", "unified", "other", "opaque", "transfer", "transfer-line", "on-fill", "on-deep", "mark", "idle"]) {
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
    view.device.lanes.forEach(drawLane);
    drawUnmeasured();
    if (view.mark) drawMark();
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
    const rough = ((view.to - view.from) * 90) / width();
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
      if (px - half > LEFT && px + half < LEFT + width()) context.fillText(label, px - half, 9);
    }
    return step;
  }

  function drawSteps() {
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    view.device.steps.forEach(([start, end, label], i) => {
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
    drawBlocks(lane, top);
    context.font = "11.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let j = data.firstAfter(lane, view.from); j < lane.size && lane.start[j] < view.to; j++) {
      const left = Math.max(x(lane.start[j]), LEFT), right = Math.min(x(lane.end[j]), LEFT + width());
      if (right - left > 56) drawName(lane, j, left, right, top);
    }
  }

  // One block is as high as the lane. Of several merged into one, the height says for which share
  // of its length something ran, and the hatched height for which share it was exposed. What is
  // narrower than two pixels is summed up pixel by pixel in the same way: no width is made up.
  function drawBlocks(lane, top) {
    const exposed = view.device.exposed[lane.kind];
    const ran = new Map(), bare = new Map();
    context.fillStyle = colors[lane.kind];
    for (let j = data.firstAfter(lane, view.from); j < lane.size && lane.start[j] < view.to; j++) {
      const left = Math.max(x(lane.start[j]), LEFT - 2);
      const right = Math.min(x(lane.end[j]), LEFT + width() + 2);
      const length = Math.max(lane.end[j] - lane.start[j], 1);
      const merged = lane.n && lane.n[j] > 1;
      const busy = merged ? lane.busy[j] / length : 1;
      if (right - left < 2) {
        addTo(ran, left, right, busy);
        if (exposed && lane.exposed) addTo(bare, left, right, lane.exposed[j] / length);
        continue;
      }
      // A hairline between neighbours that touch shows that they are two.
      const wide = right - left - 0.5;
      if (merged) {
        context.globalAlpha = 0.22;
        context.fillRect(left, top, wide, LANE);
        context.globalAlpha = 1;
      }
      context.fillRect(left, top + LANE * (1 - busy), wide, LANE * busy);
      if (!exposed || !lane.exposed || !lane.exposed[j]) continue;
      context.fillStyle = hatch;
      if (merged) {
        const share = lane.exposed[j] / length;
        context.fillRect(left, top + LANE * (1 - share), wide, LANE * share);
      } else drawExposed(exposed, lane.start[j], lane.end[j], top, bare);
      context.fillStyle = colors[lane.kind];
    }
    drawPixels(ran, top);
    context.fillStyle = hatch;
    drawPixels(bare, top);
  }

  function drawExposed(part, start, end, top, bare) {
    const first = Math.max(start, view.from), last = Math.min(end, view.to);
    for (let j = data.firstAfter(part, first); j < part.size && part.start[j] < last; j++) {
      const left = x(Math.max(part.start[j], first)), right = x(Math.min(part.end[j], last));
      if (right - left < 2) addTo(bare, left, right, 1);
      else context.fillRect(left, top, right - left, LANE);
    }
  }

  // Spreads a share of what lies between two points over the pixels there.
  function addTo(pixels, left, right, share) {
    if (!share) return;
    for (let at = Math.floor(left); at < right || at === Math.floor(left); at++) {
      const part = Math.min(right, at + 1) - Math.max(left, at);
      pixels.set(at, (pixels.get(at) || 0) + part * share);
    }
  }

  // As high as the share of the pixel, and a pixel high at least, so that nothing is lost to sight.
  function drawPixels(pixels, top) {
    for (const [at, share] of pixels) {
      const high = Math.max(LANE * Math.min(share, 1), 1);
      context.fillRect(at, top + LANE - high, 1, high);
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
    const boxed = (lane.exposed && lane.exposed[j] > 0) || many;
    if (boxed) {
      context.fillStyle = colors.ground;
      context.globalAlpha = 0.86;
      context.fillRect(left + 3, top + LANE / 2 - 8, size + 6, 16);
      context.globalAlpha = 1;
    }
    const deep = lane.kind === "h2d" || lane.kind === "opaque";
    context.fillStyle = boxed ? colors.text : colors[deep ? "on-deep" : "on-fill"];
    context.fillText(text, left + 6, top + LANE / 2 + 0.5);
  }

  function drawUnmeasured() {
    const edges = [view.device.from, ...view.device.measured.flat(), view.device.to];
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
    const left = x(view.mark.start), right = Math.max(x(view.mark.end), left + 2);
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
    view.device.lanes.forEach((lane, i) => {
      context.fillStyle = colors.text;
      context.fillText(TITLES[lane.kind], 10, laneTop(i) + LANE / 2);
    });
  }

  return { LEFT, LANE, TITLES, width, time, laneTop, draw, readColors };
};
