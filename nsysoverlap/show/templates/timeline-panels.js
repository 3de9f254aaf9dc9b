// What stands below the timeline: the block that a click pinned, and the sums of a range.
const timelinePanels = (data, view, titles) => {
  const details = document.getElementById("tl-details");
  const sums = document.getElementById("tl-sums");
  const sumsOf = timelineSums(data);

  function describe(lane, j) {
    const n = lane.n ? lane.n[j] : 1;
    const length = lane.end[j] - lane.start[j];
    const lines = [data.names[lane.name[j]]];
    if (n > 1) {
      lines[0] = `${data.count(n)} activities, the longest ${lines[0]}`;
      lines.push(`busy ${data.span(lane.busy[j])} of ${data.span(length)}`);
    }
    const where = lane.thread === undefined
      ? `on stream ${view.device.streams[lane.stream[j]]}` : `of thread ${lane.thread}`;
    lines.push(`${titles[lane.kind]} ${where}, ${data.span(length)}`);
    if (lane.bytes && lane.bytes[j]) {
      const rate = data.rate(lane, j);
      lines.push(data.bytes(lane.bytes[j]) + (rate ? ` at ${rate.toFixed(1)} GB/s` : ", estimated"));
    }
    if (view.device.exposed[lane.kind]) {
      lines.push(`exposed ${data.span(lane.exposed ? lane.exposed[j] : 0)}`);
    }
    lines.push(`${data.instant(lane.start[j])} to ${data.instant(lane.end[j])} ms`);
    return lines;
  }

  const made = (tag, text, parts = []) => {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    element.append(...parts);
    return element;
  };

  function showPin() {
    details.hidden = !view.pin;
    if (!view.pin) return;
    const [name, ...rest] = describe(view.pin.lane, view.pin.j);
    details.querySelector("p").replaceChildren(made("strong", name), `: ${rest.join("; ")}`);
  }

  function showSums() {
    sums.hidden = !view.select;
    if (!view.select) return;
    const { start, end } = view.select;
    const found = sumsOf(view.device, start, end);
    sums.dataset.sums = JSON.stringify(found);
    const about = found.exact ? "" : "about ";
    const parts = ["h2d", "d2h", "both"].filter((name) => found[name] && (found[name].n || found[name].wall));
    const behind = parts.some((name) => found[name].comm);
    const heads = ["", "n", "size", "wall", found.exact ? "behind compute" : "hidden",
      ...(behind ? ["behind comm"] : []), "exposed", "hidden"];
    const rows = parts.map((name) => {
      const part = found[name];
      const size = data.bytes(part.bytes) + (part.estimated ? ` + ${data.bytes(part.estimated)} estimated` : "");
      const share = part.wall ? `${((100 * part.compute) / part.wall).toFixed(1)} %` : "–";
      return [name === "both" ? "both" : name.toUpperCase(), data.count(part.n), size, data.span(part.wall),
        data.span(part.compute), ...(behind ? [data.span(part.comm)] : []), data.span(part.exposed), share];
    });
    const line = (cells, tag) => made("tr", "", cells.map((text, i) => {
      const cell = made(tag, text);
      if (i) cell.className = "n";
      return cell;
    }));
    const table = sums.querySelector("table");
    table.replaceChildren(made("thead", "", [line(heads, "th")]), made("tbody", "", rows.map((row) => line(row, "td"))));
    table.hidden = !rows.length;
    const kernels = `${about}${data.count(found.kernels)} compute ${found.kernels === 1 ? "kernel" : "kernels"}, busy ${data.span(found.busy)}`;
    sums.querySelector("p").replaceChildren(
      made("strong", `${data.instant(start)} to ${data.instant(end)} ms`),
      ` (${data.span(end - start)}): ${rows.length ? "" : "no transfers; "}${kernels}.`
      + (found.exact ? "" : " Blocks here stand for several activities, so these are not exact; whole steps are."));
  }

  return { describe, showPin, showSums };
};
