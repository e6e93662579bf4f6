// Fetches the page again and copies its changes into this one, so that only the server makes HTML.
"use strict";

const EVERY = 2000; // ms; a page that takes long to make is fetched less often
let last = Date.now();
let timer;

function opened() {
  return [...document.querySelectorAll("details[open]")].map((each) => "open=" + encodeURIComponent(each.id)).join("&");
}

// Makes `old` equal to `fresh` and touches only what differs, so that selection, focus and open topics stay.
function morph(old, fresh) {
  if (old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((child, index) => (index < before.length ? morph(before[index], child) : old.append(child)));
  before.slice(after.length).forEach((child) => child.remove());
}

async function update() {
  clearTimeout(timer);
  const begun = Date.now();
  const stale = document.getElementById("stale");
  try {
    const answer = await fetch("?" + opened(), { signal: AbortSignal.timeout(20000) });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    morph(document.querySelector("main"), fresh.querySelector("main"));
    document.title = fresh.title;
    last = Date.now();
    stale.hidden = true;
  } catch {
    stale.textContent = `No answer for ${Math.round((Date.now() - last) / 1000)} s: this page is out of date.`;
    stale.hidden = false;
  }
  timer = setTimeout(update, document.hidden ? 15000 : Math.max(EVERY, 5 * (Date.now() - begun)));
}

document.addEventListener("visibilitychange", () => document.hidden || update());
// The rows of a topic with many partitions are fetched when it is opened.
document.addEventListener("toggle", (event) => event.target.open && update(), true);
timer = setTimeout(update, EVERY);
