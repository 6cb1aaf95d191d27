(() => {
  const field = document.querySelector("#find"), rows = [...document.querySelectorAll(".notes > li")];
  if (!field) return;
  const fold = text => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const keys = rows.map(row => `${fold(row.querySelector(".key").textContent)} `);
  // A tag with a space behind it is whole: that one, or one below it.
  const holds = (key, word) => /^#.*\s$/.test(word)
    ? [" ", "/"].some(end => key.includes(word.trim() + end)) : key.includes(word);
  const older = document.querySelector("#older"), said = document.querySelector("#found");
  const find = () => {
    const words = fold(field.value).match(/#\S+\s|\S+/g) || [];
    let found = 0;
    rows.forEach((row, at) => {
      row.hidden = !words.every(one => holds(keys[at], one));
      found += !row.hidden;
    });
    if (older) older.open = words.length > 0;
    said.textContent = words.length ? `${found} of ${rows.length} notes` : "";
  };
  const show = () => {
    const row = location.hash.startsWith("#n") && document.getElementById(location.hash.slice(1));
    if (!row || !rows.includes(row)) return;
    if (older && older.contains(row)) older.open = true;
    const text = row.querySelector("details");
    if (text) text.open = true;
    row.scrollIntoView();
  };
  field.addEventListener("input", find);
  field.addEventListener("keydown", event => {
    const first = rows.find(row => !row.hidden);
    if (event.key === "Enter" && first) first.querySelector("a, summary").click();
  });
  document.addEventListener("click", event => {
    const asked = event.target.closest("[data-find]");
    if (!asked) return;
    event.preventDefault();
    field.value = `${asked.dataset.find} `;
    find();
    field.scrollIntoView();
    field.focus({preventScroll: true});
  });
  addEventListener("hashchange", show);
  show();
})();
