// What the theme and its copy buttons leave out for readers who use no mouse.
window.addEventListener("load", () => {
  for (const button of document.querySelectorAll("button.copybtn")) {
    button.setAttribute("aria-label", "Copy this code");
  }
  for (const block of document.querySelectorAll("div.highlight pre")) {
    if (block.scrollWidth > block.clientWidth) {
      block.tabIndex = 0; // the arrow keys scroll it
    }
  }
});
