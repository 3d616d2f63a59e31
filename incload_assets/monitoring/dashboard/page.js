// Refreshes the page every few seconds, without moving it and without closing what is open.
const seconds = Number(document.currentScript.dataset.seconds);
const name = (one) => one.closest("summary")?.parentElement.id ?? one.getAttribute("href");
async function refresh() {
  if (document.hidden || getSelection().toString()) return; // nobody looks, or somebody is about to copy
  const main = document.getElementById("main");
  if ([...main.querySelectorAll("input")].some((one) => one.value || one === document.activeElement)) return; // somebody types
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = [...main.querySelectorAll("details[open]")].map((each) => each.id);
    const focused = main.contains(document.activeElement) ? name(document.activeElement) : null;
    const shown = found.getElementById("main");
    main.replaceWith(shown);
    document.querySelector(".at").replaceWith(found.querySelector(".at"));
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (focused) [...shown.querySelectorAll("a, summary")].find((one) => name(one) === focused)?.focus();
  } catch (error) {
    const notice = main.querySelector(".stale");
    notice.textContent = `This page is no longer kept up: incload dashboard does not answer (${error.message}).`;
    notice.hidden = false;
  }
}
setInterval(refresh, seconds * 1000);
document.addEventListener("visibilitychange", refresh);
