// What a stretch of time comes to: the split of the transfers, as the report defines it.
const timelineSums = (data) => {
  const SUMS = ["n", "bytes", "estimated", "wall", "compute", "comm", "exposed"];

  // Disjoint pieces of what ran in some lanes from one time to another, as [start, end] pairs.
  function union(lanes, from, to) {
    const pieces = [];
    for (const lane of lanes) {
      for (let j = data.firstAfter(lane, from); j < lane.size && lane.start[j] < to; j++) {
        const start = Math.max(lane.start[j], from), end = Math.min(lane.end[j], to);
        if (end > start) pieces.push([start, end]);
      }
    }
    pieces.sort((a, b) => a[0] - b[0]);
    const merged = [];
    for (const [start, end] of pieces) {
      const last = merged[merged.length - 1];
      if (last && start <= last[1]) last[1] = Math.max(last[1], end);
      else merged.push([start, end]);
    }
    return merged;
  }
  const length = (pieces) => pieces.reduce((sum, [start, end]) => sum + end - start, 0);
  function shared(one, two) {
    let sum = 0;
    for (let i = 0, k = 0; i < one.length && k < two.length;) {
      sum += Math.max(Math.min(one[i][1], two[k][1]) - Math.max(one[i][0], two[k][0]), 0);
      if (one[i][1] < two[k][1]) i++; else k++;
    }
    return sum;
  }

  // Transfers and kernels belong to the time that holds their start.
  function started(lanes, from, to, take) {
    let sum = 0;
    for (const lane of lanes) {
      for (let j = data.firstAfter(lane, from); j < lane.size && lane.start[j] < to; j++) {
        if (lane.start[j] >= from) sum += take(lane, j);
      }
    }
    return sum;
  }
  const counted = (lane, j) => (lane.n ? lane.n[j] : 1);

  function measured(lanes, compute, active, from, to) {
    const wall = union(lanes, from, to);
    const part = { n: started(lanes, from, to, counted), wall: length(wall) };
    part.estimated = started(lanes, from, to, (lane, j) => (lane.estimated ? lane.estimated[j] : 0));
    part.bytes = started(lanes, from, to, (lane, j) => (lane.bytes ? lane.bytes[j] : 0)) - part.estimated;
    part.compute = shared(wall, compute);
    part.comm = shared(wall, active) - part.compute;
    part.exposed = part.wall - part.compute - part.comm;
    return part;
  }

  // Of merged blocks only the share inside is known, and behind what, not at all.
  function guessed(lanes, from, to) {
    const part = Object.fromEntries(SUMS.map((name) => [name, 0]));
    for (const lane of lanes) {
      for (let j = data.firstAfter(lane, from); j < lane.size && lane.start[j] < to; j++) {
        const long = lane.end[j] - lane.start[j];
        const share = long ? Math.max(Math.min(lane.end[j], to) - Math.max(lane.start[j], from), 0) / long : 1;
        part.n += share * counted(lane, j);
        part.estimated += share * (lane.estimated ? lane.estimated[j] : 0);
        part.bytes += share * ((lane.bytes ? lane.bytes[j] : 0) - (lane.estimated ? lane.estimated[j] : 0));
        part.wall += share * (lane.busy ? lane.busy[j] : long);
        part.exposed += share * (lane.exposed ? lane.exposed[j] : 0);
      }
    }
    part.compute = part.wall - part.exposed;
    return part;
  }

  // The sums of whole steps as the report has them, where the stretch is just that.
  function stepped(device, from, to) {
    if (!device.sums) return null;
    const first = device.steps.findIndex(([start]) => start === from);
    let last = first;
    while (first >= 0 && last < device.steps.length && device.steps[last][1] < to
      && device.steps[last + 1]?.[0] === device.steps[last][1]) last++;
    if (first < 0 || device.steps[last][1] !== to) return null;
    const chosen = device.sums.slice(first, last + 1);
    const parts = {};
    for (const name of ["h2d", "d2h", "both"]) {
      parts[name] = Object.fromEntries(SUMS.map((sum, i) =>
        [sum, chosen.reduce((all, one) => all + one[name][i], 0)]));
    }
    return { ...parts, busy: chosen.reduce((all, one) => all + one.compute, 0) };
  }

  return (device, from, to) => {
    const lanes = (...kinds) => device.lanes.filter((lane) => kinds.includes(lane.kind));
    const kernels = started(lanes("compute"), from, to, counted);
    const merged = lanes("compute", "comm", "h2d", "d2h").some((lane) => lane.n);
    const known = stepped(device, from, to);
    if (known) return { exact: true, kernels, ...known };
    const compute = union(lanes("compute"), from, to);
    const active = union(lanes("compute", "comm"), from, to);
    const take = merged ? guessed : (some) => measured(some, compute, active, from, to);
    const parts = {};
    for (const name of ["h2d", "d2h"]) parts[name] = take(lanes(name), from, to);
    if (!merged) parts.both = take(lanes("h2d", "d2h"));
    const busy = merged ? guessed(lanes("compute"), from, to).wall : length(compute);
    return { exact: !merged, kernels, ...parts, busy };
  };
};
