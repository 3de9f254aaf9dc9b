// What pointer, wheel, touch and keys do to the timeline; `act` does it.
const timelineInput = (canvas, scale, act) => {
  const FEW = 4, HOLD_MS = 400;
  const held = new Map();
  let drag = null, pinch = 0, engaged = false, hold = 0, hover = null;
  const px = (event) => event.clientX - canvas.getBoundingClientRect().left;
  const py = (event) => event.clientY - canvas.getBoundingClientRect().top;
  const at = (point) => scale.time(Math.min(Math.max(point, scale.left()), scale.right()));

  function disengage() {
    engaged = false;
    canvas.classList.remove("engaged");
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 1) return;
    held.set(event.pointerId, px(event));
    canvas.setPointerCapture(event.pointerId);
    const pans = event.pointerType === "touch" || event.shiftKey || event.button === 1;
    drag = { mode: pans ? "pan" : "select", from: px(event), last: px(event), moved: false };
    clearTimeout(hold);
    if (event.pointerType === "touch") {
      // A finger that rests begins a selection, as on text.
      const begun = drag;
      hold = setTimeout(() => { if (!begun.moved && held.size === 1) begun.mode = "select"; }, HOLD_MS);
    }
    if (event.button === 1) event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => {
    hover = px(event);
    if (!held.has(event.pointerId)) { act.hover(px(event), py(event)); return; }
    held.set(event.pointerId, px(event));
    if (held.size === 2) { pinched(); return; }
    if (!drag) return;
    if (Math.abs(px(event) - drag.from) >= FEW) drag.moved = true;
    if (!drag.moved) return;
    canvas.classList.add("grabbed");
    if (drag.mode === "select") act.select(at(drag.from), at(px(event)));
    else act.pan((drag.last - px(event)) / scale.width());
    drag.last = px(event);
  });
  function pinched() {
    const [one, two] = [...held.values()];
    const apart = Math.max(Math.abs(one - two), 8);
    if (pinch) act.zoom(pinch / apart, at((one + two) / 2));
    pinch = apart;
    if (drag) drag.moved = true;
  }
  function release(event) {
    const click = held.size === 1 && drag && !drag.moved && event.type === "pointerup";
    held.delete(event.pointerId);
    clearTimeout(hold);
    pinch = 0;
    drag = null;
    canvas.classList.remove("grabbed");
    if (!click) return;
    act.pin(px(event), py(event));
    engaged = event.pointerType !== "touch";
    canvas.classList.toggle("engaged", engaged);
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { hover = null; disengage(); act.leave(); });
  canvas.addEventListener("blur", disengage);
  canvas.addEventListener("dblclick", (event) => act.zoom(0.25, at(px(event))));

  // The wheel belongs to the page, unless a key or a click before says that it is meant.
  canvas.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const meant = engaged || event.ctrlKey || event.metaKey;
    if (!sideways && !meant) { act.explain(); return; }
    const done = sideways
      ? act.pan((event.deltaX || event.deltaY) / scale.width())
      : act.zoom(1.0015 ** event.deltaY, at(px(event)));
    if (done || event.ctrlKey || event.metaKey) event.preventDefault();
  }, { passive: false });

  const around = () => (hover === null ? undefined : at(hover));
  const left = () => act.pan(-0.25), right = () => act.pan(0.25);
  const near = () => act.zoom(0.5, around()), far = () => act.zoom(2, around());
  const keys = {
    ArrowLeft: left, a: left, ArrowRight: right, d: right, w: near, s: far,
    "+": () => act.zoom(0.5), "=": () => act.zoom(0.5), "-": () => act.zoom(2), Enter: () => act.zoom(0.5),
    0: act.all, Home: act.all, n: () => act.stretch(true), p: () => act.stretch(false),
    "[": () => act.step(-1), "]": () => act.step(1), f: act.fit, m: act.selectView,
    "/": act.search, b: act.back, Escape: act.clear,
  };
  canvas.addEventListener("keydown", (event) => {
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (event.key === "Escape") disengage();
    action();
  });
};
