"use strict";
// Sorts and filters the rows that are there, and opens a task's attempts. Text only ever enters the
// page as text nodes.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const table = document.getElementById("task-table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const columns = table.tHead.rows[0].cells.length;
  const form = document.querySelector(".filters");
  const search = document.getElementById("f-text");
  const outcome = document.getElementById("f-outcome");
  const change = document.getElementById("f-change");
  const count = document.getElementById("f-count");
  const facts = rows.map((row) => ({
    row,
    text: row.textContent.toLowerCase(),
    outcome: row.querySelector(".pill").textContent,
    change: row.dataset.change,
  }));

  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };

  const log = (text, label) => {
    const pre = make("pre", text);
    pre.tabIndex = 0;
    pre.setAttribute("role", "group");
    pre.setAttribute("aria-label", label);
    return pre;
  };

  const attemptParts = (attempt, several) => {
    const parts = [make("h3", (several ? `Attempt ${attempt.n}: ` : "") + attempt.outcome)];
    const list = make("dl", undefined, "facts");
    for (const [name, value] of Object.entries(attempt.facts)) {
      const pair = make("div");
      pair.append(make("dt", name), make("dd", value));
      list.append(pair);
    }
    parts.push(list);
    if (attempt.reason) parts.push(make("p", attempt.reason));
    if (attempt.message && attempt.message !== attempt.reason) parts.push(log(attempt.message, "Message"));
    if (attempt.log) {
      const end = log(attempt.log, "The end of the log");
      end.classList.add("log-end");
      parts.push(make("p", "The end of its log:", "quiet"), end);
    }
    if (attempt.earlier.length) {
      parts.push(make("p", "Earlier trials, which do not count:", "quiet"));
      const earlier = make("ul");
      for (const line of attempt.earlier) earlier.append(make("li", line));
      parts.push(earlier);
    }
    return parts;
  };

  const commandParts = (command) => {
    const line = make("div", undefined, "command");
    const pre = log(command, "The command");
    const copy = make("button", "Copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre);
        copy.textContent = "Selected";
      }
    });
    line.append(pre, copy);
    return [make("p", "Run this task again:", "quiet"), line];
  };

  const detailOf = (row) => (row.nextElementSibling?.classList.contains("detail") ? row.nextElementSibling : null);

  const toggle = (row, open) => {
    const button = row.querySelector("th button");
    const shown = detailOf(row);
    if (open === Boolean(shown)) return;
    button.setAttribute("aria-expanded", String(open));
    if (!open) {
      shown.remove();
      return;
    }
    const task = data[Number(row.id.slice(1))];
    const detail = make("tr", undefined, "detail");
    const cell = make("td");
    cell.colSpan = columns;
    for (const attempt of task.attempts) cell.append(...attemptParts(attempt, task.attempts.length > 1));
    cell.append(...commandParts(task.command));
    detail.append(cell);
    row.after(detail);
    for (const end of detail.querySelectorAll(".log-end")) end.scrollTop = end.scrollHeight;
  };

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let visible = 0;
    for (const fact of facts) {
      const fits =
        words.every((word) => fact.text.includes(word)) &&
        (!outcome.value || fact.outcome === outcome.value) &&
        (!change?.value || fact.change === change.value);
      fact.row.hidden = !fits;
      const detail = detailOf(fact.row);
      if (detail) detail.hidden = !fits;
      visible += fits ? 1 : 0;
    }
    count.textContent = `${visible} of ${rows.length} tasks`;
  };

  const valueOf = (row, column, kind) => {
    const cell = row.cells[column];
    if (kind === "text") return cell.textContent.trim().toLowerCase();
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };

  const sort = (head, kind) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const order = new Intl.Collator("en", { numeric: true }).compare;
    const keyed = rows.map((row) => ({ row, detail: detailOf(row), key: valueOf(row, head.cellIndex, kind) }));
    keyed.sort((a, b) => {
      // What is not known comes last in both directions.
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      const difference = kind === "text" ? order(a.key, b.key) : a.key - b.key;
      return up ? difference : -difference;
    });
    body.append(...keyed.flatMap((item) => (item.detail ? [item.row, item.detail] : [item.row])));
  };

  const openFromAddress = () => {
    const row = /^#t\d+$/.test(location.hash) ? document.getElementById(location.hash.slice(1)) : null;
    if (!row) return;
    if (row.hidden) {
      form.reset();
      filter();
    }
    toggle(row, true);
    row.scrollIntoView({ block: "center" });
    row.querySelector("th button").focus({ preventScroll: true });
  };

  for (const head of table.tHead.rows[0].cells) {
    const button = make("button", head.textContent);
    button.type = "button";
    button.addEventListener("click", () => sort(head, head.dataset.sort));
    head.replaceChildren(button);
  }
  for (const row of rows) {
    const head = row.cells[0];
    const button = make("button", head.textContent);
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    head.replaceChildren(button);
  }
  body.addEventListener("click", (event) => {
    const button = event.target.closest("th button");
    if (button) toggle(button.closest("tr"), button.getAttribute("aria-expanded") === "false");
  });
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  addEventListener("hashchange", openFromAddress);
  filter();
  openFromAddress();
})();
