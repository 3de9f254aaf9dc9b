// The rows of a device from top to bottom: its lanes, curves, and if asked for streams and host.
const timelineRows = (data) => {
  const TOP = 52, LANE = 34, GAP = 8, THIN = 18, CLOSE = 3, MOST_STREAMS = 24;
  const TITLES = {
    compute: "compute", comm: "comm", d2h: "D2H", h2d: "H2D", unified: "unified", other: "other",
    opaque: "graphs", curve: "on the host", rate: "GB/s", nvtx: "NVTX", calls: "CUDA calls",
  };
  const ran = (lane) => Array.from(lane.start, (start, j) => lane.busy ? lane.busy[j] : lane.end[j] - start)
    .reduce((sum, ns) => sum + ns, 0);

  function streams(device) {
    const rows = device.streams.map((number, place) => {
      const parts = device.lanes.map((lane) => data.picked(lane, (j) => lane.stream[j] === place)).filter(Boolean);
      return { kind: "stream", title: `stream ${number}`, parts, busy: parts.reduce((sum, one) => sum + ran(one), 0) };
    });
    const busiest = [...rows].sort((a, b) => b.busy - a.busy).slice(0, MOST_STREAMS);
    return rows.filter((row) => busiest.includes(row));
  }

  const host = (device) => device.host.map((lane) => ({
    kind: lane.kind,
    title: lane.kind === "calls" || !lane.level ? `${TITLES[lane.kind]} ${lane.thread}` : "",
    parts: [lane],
  }));

  // Up to the peak of the link, or the fastest copy where that is not known, or faster.
  function rates(device, moving) {
    const peaks = [...new Set(Object.values(device.peak).filter(Boolean))];
    const fastest = moving.reduce((most, lane) =>
      lane.bytes.reduce((sofar, _, j) => Math.max(sofar, data.rate(lane, j)), most), 0);
    const below = peaks.length ? `link ${peaks.join(", ")}` : `max ${fastest.toFixed(1)}`;
    return { kind: "rate", title: TITLES.rate, below, parts: moving, peaks, most: Math.max(fastest, ...peaks) || 1 };
  }

  function made(device, shown) {
    const rows = device.lanes.map((lane) => ({ kind: lane.kind, title: TITLES[lane.kind], parts: [lane] }));
    const moving = device.lanes.filter((lane) => device.exposed[lane.kind] && lane.bytes);
    if (device.curve) {
      rows.push({ kind: "curve", title: TITLES.curve, below: `max ${data.bytes(device.curve.most)}`, parts: [] });
    }
    if (moving.length) rows.push(rates(device, moving));
    const thin = [...(shown.streams ? streams(device) : []), ...(shown.host ? host(device) : [])];
    let top = TOP;
    for (const row of [...rows, ...thin]) {
      const close = thin.includes(row);
      Object.assign(row, { top, high: close ? THIN : LANE });
      top += row.high + (close ? CLOSE : GAP);
    }
    return [...rows, ...thin];
  }
  return { made, TITLES };
};
