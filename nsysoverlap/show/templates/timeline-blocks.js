// The drawing of rows: blocks of lanes, the curve of bytes on the host, and rates of copies.
const timelineBlocks = (data, view, scale, paint) => {
  const { context, colors } = paint;
  const { x } = scale;

  // Calls `each(j, left, right)` for the spans in sight, in pixels of the canvas.
  function inSight(lane, each) {
    for (let j = data.firstAfter(lane, view.from); j < lane.size && lane.start[j] < view.to; j++) {
      if (lane.end[j] < view.from) continue;
      each(j, Math.max(x(lane.start[j]), scale.left() - 2), Math.min(x(lane.end[j]), scale.right() + 2));
    }
  }

  function drawRow(row) {
    context.fillStyle = colors.line;
    context.fillRect(scale.left(), row.top + row.high, scale.width(), 1);
    if (row.kind === "curve") { drawCurve(row); return; }
    if (row.kind === "rate") { drawRates(row); return; }
    for (const lane of row.parts) drawBlocks(lane, row);
    context.font = `${row.high > 20 ? 11.5 : 10.5}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    for (const lane of row.parts) {
      inSight(lane, (j, left, right) => {
        if (view.matches.has(lane.name[j])) {
          context.fillStyle = colors.mark;
          context.fillRect(left, row.top + row.high - 3, Math.max(right - left, 1), 3);
        }
        left = Math.max(left, scale.left());
        right = Math.min(right, scale.right());
        if (right - left > 56) drawName(lane, j, left, right, row);
      });
    }
  }

  // One block is as high as the row. Of several merged into one, the height says for which share
  // of its length something ran, and the hatched height for which share it was exposed. What is
  // narrower than two pixels is summed up pixel by pixel in the same way: no width is made up.
  function drawBlocks(lane, { top, high }) {
    const exposed = view.device.exposed[lane.kind];
    const ran = new Map(), bare = new Map();
    context.fillStyle = colors[lane.kind];
    inSight(lane, (j, left, right) => {
      const length = Math.max(lane.end[j] - lane.start[j], 1);
      const merged = lane.n && lane.n[j] > 1;
      const busy = merged ? lane.busy[j] / length : 1;
      if (right - left < 2) {
        addTo(ran, left, right, busy);
        if (exposed && lane.exposed) addTo(bare, left, right, lane.exposed[j] / length);
        return;
      }
      // A hairline between neighbours that touch shows that they are two.
      const wide = right - left - 0.5;
      if (merged) {
        context.globalAlpha = 0.22;
        context.fillRect(left, top, wide, high);
        context.globalAlpha = 1;
      }
      context.fillRect(left, top + high * (1 - busy), wide, high * busy);
      if (!exposed || !lane.exposed || !lane.exposed[j]) return;
      context.fillStyle = paint.hatch;
      if (merged) {
        const share = lane.exposed[j] / length;
        context.fillRect(left, top + high * (1 - share), wide, high * share);
      } else drawExposed(exposed, lane.start[j], lane.end[j], top, high, bare);
      context.fillStyle = colors[lane.kind];
    });
    drawPixels(ran, top, high);
    context.fillStyle = paint.hatch;
    drawPixels(bare, top, high);
  }

  function drawExposed(part, start, end, top, high, bare) {
    const first = Math.max(start, view.from), last = Math.min(end, view.to);
    for (let j = data.firstAfter(part, first); j < part.size && part.start[j] < last; j++) {
      const left = x(Math.max(part.start[j], first)), right = x(Math.min(part.end[j], last));
      if (right - left < 2) addTo(bare, left, right, 1);
      else context.fillRect(left, top, right - left, high);
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
  function drawPixels(pixels, top, high) {
    for (const [at, share] of pixels) {
      const part = Math.max(high * Math.min(share, 1), 1);
      context.fillRect(at, top + high - part, 1, part);
    }
  }

  function drawName(lane, j, left, right, { top, high }) {
    const many = lane.n && lane.n[j] > 1 ? `${data.count(lane.n[j])}× ` : "";
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
      context.fillRect(left + 3, top + high / 2 - 8, size + 6, 16);
      context.globalAlpha = 1;
    }
    const deep = ["h2d", "opaque", "calls"].includes(lane.kind);
    const plain = lane.kind === "nvtx" ? "text" : deep ? "on-deep" : "on-fill";
    context.fillStyle = colors[boxed ? "text" : plain];
    context.fillText(text, left + 6, top + high / 2 + 0.5);
  }

  function drawCurve({ top, high }) {
    const { at, bytes, most } = view.device.curve;
    const y = (level) => top + high * (1 - level / most);
    context.beginPath();
    let level = 0;
    context.moveTo(scale.left() - 2, y(0));
    for (let i = 0; i < at.length && at[i] <= view.to; i++) {
      const px = Math.max(x(at[i]), scale.left() - 2);
      context.lineTo(px, y(level));
      level = bytes[i];
      context.lineTo(px, y(level));
    }
    context.lineTo(scale.right() + 2, y(level));
    context.lineTo(scale.right() + 2, top + high);
    context.lineTo(scale.left() - 2, top + high);
    context.fillStyle = colors["host-fill"];
    context.fill();
    context.strokeStyle = colors.text;
    context.stroke();
  }

  // Each copy as high as its GB/s, of several in a pixel the fastest, below the peak of the link.
  function drawRates({ top, high, parts, peaks, most }) {
    for (const lane of parts) {
      context.fillStyle = colors[lane.kind];
      const pixels = new Map();
      inSight(lane, (j, left, right) => {
        const tall = (high * data.rate(lane, j)) / most, at = Math.floor(left);
        if (right - left < 2) pixels.set(at, Math.max(pixels.get(at) || 0, tall));
        else context.fillRect(left, top + high - tall, right - left - 0.5, tall);
      });
      for (const [at, tall] of pixels) context.fillRect(at, top + high - tall, 1, tall);
    }
    context.strokeStyle = colors.text;
    context.setLineDash([5, 3]);
    for (const peak of peaks) {
      const y = Math.round(top + high * (1 - peak / most)) + 0.5;
      context.beginPath();
      context.moveTo(scale.left(), y);
      context.lineTo(scale.right(), y);
      context.stroke();
    }
    context.setLineDash([]);
  }

  return drawRow;
};
