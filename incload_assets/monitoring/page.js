// Shows the page anew every some seconds, without moving it and without closing what is open.
const seconds = Number(document.currentScript.dataset.seconds);
async function refresh() {
  if (document.hidden) return;
  const main = document.getElementById("main");
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = [...main.querySelectorAll("details[open]")].map((each) => each.id);
    const focused = main.contains(document.activeElement);
    if (focused) return; // somebody is at work in it
    main.replaceWith(found.getElementById("main"));
    document.querySelector(".at").replaceWith(found.querySelector(".at"));
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  } catch (error) {
    const notice = main.querySelector(".stale");
    notice.textContent = `This page is no longer kept up: incload dashboard cannot be reached (${error.message}).`;
    notice.hidden = false;
  }
}
setInterval(refresh, seconds * 1000);
document.addEventListener("visibilitychange", refresh);
