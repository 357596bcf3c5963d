// Hides what does not hold the words, and opens what does. Without scripts the page is whole, and has no search.
(() => {
  const place = document.getElementById("find"), input = place.querySelector("input"), said = place.querySelector("span");
  place.hidden = false;
  const items = [...document.querySelectorAll("main .window, main tr")].filter(e => !e.querySelector("th"))
    .map(e => [e, e.textContent.toLowerCase()]);
  const passes = [...document.querySelectorAll("main details.pass")].map(e => [e, e.open]);
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const [item, text] of items) {
      item.hidden = !words.every(word => text.includes(word));
      found += item.hidden ? 0 : 1;
    }
    for (const [pass, open] of passes) {
      const name = pass.querySelector("summary").textContent.toLowerCase();
      const named = words.length > 0 && words.every(word => name.includes(word));
      if (named) for (const item of pass.querySelectorAll(".window, tr")) item.hidden = false;
      const holds = named || !!pass.querySelector(".window:not([hidden]), td:not([hidden])") &&
        [...pass.querySelectorAll(".window, tr")].some(e => !e.hidden && !e.querySelector("th"));
      pass.hidden = words.length > 0 && !holds;
      pass.open = words.length > 0 ? holds : open;
      for (const inner of pass.querySelectorAll("details")) inner.open = words.length > 0 && holds && !named;
    }
    said.textContent = words.length ? `${found} found` : "";
  };
  input.addEventListener("input", search);
  const show = () => {  // an anchor inside something that is closed
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1))) ||
      document.getElementById(location.hash.slice(1));
    for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", show);
  if (location.hash) show();
})();
