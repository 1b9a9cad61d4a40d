// The tables of classes with bars: quantity, quality and error; weights before and after alignment.

const MANY_CLASSES = 20;
const MOST_ROWS = 100; // drawn again at every moment: more only on request
let allClasses = false;
const ORDERS = {
  class: { label: "by class", key: null },
  error: { label: "highest error first", key: (moment, c) => -(moment.errors?.[c] ?? -1) },
  quality: { label: "lowest quality first", key: (moment, c) => moment.classes?.quality?.[c] ?? 2 },
  samples: { label: "rarest pseudo-label first", key: (moment, c) => moment.classes?.samples?.[c] ?? 0 },
};

function bar(value, name, largest = 1, thin = false) {
  const track = element("span", "", thin ? "bar thin" : "bar");
  const fill = element("i");
  fill.style.width = `${100 * Math.min(1, Math.max(0, (value ?? 0) / largest))}%`;
  fill.style.setProperty("--color", `var(--${name})`);
  track.append(fill);
  return track;
}

function cell(value, name, format = percent, largest = 1) {
  const made = element("td", value == null ? "–" : format(value));
  made.append(bar(value, name, largest));
  return made;
}

function table(target, heads, rows) {
  const head = element("tr");
  for (const [text, className] of heads) {
    const made = element("th", text, className || "");
    made.scope = "col";
    head.append(made);
  }
  const thead = element("thead");
  const tbody = element("tbody");
  thead.append(head);
  tbody.append(...rows);
  target.replaceChildren(thead, tbody);
}

function row(name, cells) {
  const made = element("tr");
  const head = element("th");
  head.scope = "row";
  head.title = name; // the text itself is cut after two lines
  head.append(element("bdi", name));
  made.append(head, ...cells);
  return made;
}

function ordered(moment) {
  const { key } = ORDERS[find("order").value];
  const places = data.classes.map((_, place) => place);
  if (key) places.sort((a, b) => key(moment, a) - key(moment, b));
  return allClasses ? places : places.slice(0, MOST_ROWS);
}

function prepareClasses() {
  const select = find("order");
  if (!select) return;
  for (const [name, { label }] of Object.entries(ORDERS)) {
    if (name === "class" || (name === "error" ? data.class_errors : data.histograms)) select.add(new Option(label, name));
  }
  select.value = data.classes.length <= MANY_CLASSES ? "class" : data.class_errors ? "error" : "samples";
  const redraw = () => { showClasses(); showAlignment(); };
  select.addEventListener("change", redraw);
  const more = find("all-classes");
  more.hidden = data.classes.length <= MOST_ROWS;
  more.textContent = `Show all ${count(data.classes.length)} classes`;
  more.addEventListener("click", () => { allClasses = true; more.hidden = true; redraw(); });
}

function errorCell(moment, c) {
  const made = cell(moment.errors?.[c], "wrong");
  if (moment.baseline_errors?.[c] != null) {
    made.append(bar(moment.baseline_errors[c], "baseline", 1, true));
    made.title = `Baseline: ${percent(moment.baseline_errors[c])}`;
  }
  return made;
}

function showClasses() {
  const target = find("classes");
  if (!target) return;
  const moment = currentMoment();
  const pseudo = data.histograms;
  const heads = [["Class"], ...(pseudo ? [["Samples", "wide"], ["Quantity f"], ["Quality g"]] : []), ...(data.class_errors ? [["Error"]] : [])];
  const samples = (moment.classes?.samples || []).reduce((sum, n) => sum + n, 0) || 1;
  const rows = ordered(moment).map((c) => {
    const cells = [];
    if (pseudo) {
      const { samples: counts, quantity, quality } = moment.classes || {};
      const share = cell(counts && counts[c] / samples, "all");
      share.className = "wide";
      cells.push(share, cell(quantity?.[c], "run", percent, data.largest_weight || 1), cell(quality?.[c], "quality"));
    }
    if (data.class_errors) cells.push(errorCell(moment, c));
    return row(data.classes[c], cells);
  });
  table(target, heads, rows);
}

function weightsCell(moment, c) {
  const { unaligned_quantity: before, quantity: after } = moment.classes || {};
  const largest = data.largest_weight || 1;
  const text = before?.[c] == null || after?.[c] == null ? "–" : `${before[c].toFixed(2)} → ${after[c].toFixed(2)}`;
  const made = element("td", text);
  made.append(bar(before?.[c], "baseline", largest), bar(after?.[c], "run", largest));
  return made;
}

function spread(values) {
  const known = (values || []).filter((value) => value != null);
  return known.length ? `${Math.min(...known).toFixed(2)} to ${Math.max(...known).toFixed(2)}` : "–";
}

function showAlignment() {
  const target = find("alignment");
  if (!target) return;
  const moments = [...new Set([data.moments[0], currentMoment()])];
  table(target, [["Class"], ...moments.map((m) => [`Step ${count(m.step)}`])],
    ordered(currentMoment()).map((c) => row(data.classes[c], moments.map((m) => weightsCell(m, c)))));
  find("alignment-summary").textContent = moments
    .map((m) => `At step ${count(m.step)} the classes’ weights range from ${spread(m.classes?.unaligned_quantity)} before and from ${spread(m.classes?.quantity)} after alignment.`)
    .join(" ");
}
