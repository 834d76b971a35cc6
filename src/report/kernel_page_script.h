// report/kernel_page_script.h: style and drawings of kernel_page.cc. Every drawing is an SVG with a title and a description.
#pragma once

namespace orrery::report {

inline constexpr const char* kKernelStyle = R"(
:root{color-scheme:light dark}*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;margin:0}main{max-width:76em;margin:auto;padding:1em}
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2.5em;overflow-wrap:anywhere;border-top:1px solid #8886;padding-top:1em}h3{font-size:1.05em;margin:1.6em 0 .4em}
nav li{overflow-wrap:anywhere}.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(11em,1fr));gap:.6em;margin:0}
.fact{border:1px solid #8884;border-radius:.5em;padding:.5em .7em}dt{font-size:.85em;opacity:.8}dd{margin:0;font-weight:600}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9em}caption{text-align:left;padding:.3em 0;opacity:.85}
td,th{padding:.2em .7em;border-bottom:1px solid #8884;text-align:left;vertical-align:top}.n{text-align:right;font-variant-numeric:tabular-nums}
code{font:12px/1.35 ui-monospace,monospace;white-space:pre;display:block;max-width:34em;max-height:9em;overflow:auto}
th button{font:inherit;font-weight:600;background:none;border:0;padding:0;cursor:pointer;color:inherit;text-decoration:underline dotted}
svg{width:100%;height:auto;max-width:60em}svg text{font-size:12px;fill:currentColor}.legend{display:flex;flex-wrap:wrap;gap:.2em 1em;font-size:.9em;padding:0;list-style:none}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em;border:1px solid #8888}a{color:inherit}:focus-visible{outline:2px solid #48f}
@media(max-width:30em){main{padding:.6em}td,th{padding:.2em .4em}}
)";

inline constexpr const char* kKernelScript = R"JS(
const records = JSON.parse(document.getElementById('records').textContent);
const colours = ['#9aa0a6','#d1495b','#edae49','#8d6cab','#30638e','#003d5b','#00798c','#2e933c','#c9cba3'];
const esc = s => String(s).replace(/[&<>"]/g, c => ({'&':'&amp;','<':'&lt;','>':'&gt;','"':'&quot;'}[c]));
const si = v => v >= 1e12 ? (v / 1e12).toPrecision(3) + 'T' : v >= 1e9 ? (v / 1e9).toPrecision(3) + 'G' : v >= 1e6 ? (v / 1e6).toPrecision(3) + 'M' : v >= 1e3 ? (v / 1e3).toPrecision(3) + 'k' : v.toPrecision(3);
let drawings = 0;
const svg = (w, h, title, words, body) => { const n = ++drawings;
  return `<svg viewBox="0 0 ${w} ${h}" role="img" aria-labelledby="t${n} d${n}"><title id="t${n}">${esc(title)}</title><desc id="d${n}">${esc(words)}</desc>${body}</svg>`; };
const legend = names => `<ul class=legend>${names.map((n, i) => `<li><i style="background:${colours[i % 9]}"></i>${esc(n)}</li>`).join('')}</ul>`;
const draw = {
  roofline(r) {
    const us = r.us, c = r.classes || {}, m = r.memory, g = r.gpu, clock = r.clock_mhz * 1e6, n = k => c[k] || 0;
    const issued = Object.values(c).reduce((a, b) => a + b, 0), bytes = Math.max(1, m.dram_read + m.dram_write), l2 = Math.max(1, 32 * (m.l2_read_sectors + m.l2_write_sectors));
    const top = 4 * g.sms * clock, rate = issued / (us * 1e-6), roofs = [['memory', g.dram * clock, bytes], ['L2', g.l2 * clock, l2]];
    const x0 = -4, x1 = 3, y1 = Math.log10(top) + .3, y0 = y1 - 5, X = v => 60 + 620 * (v - x0) / (x1 - x0), Y = v => 270 - 250 * (v - y0) / (y1 - y0);
    let out = `<path d="M60 20V270H680" fill="none" stroke="currentColor" opacity=".5"/><line x1="60" x2="680" y1="${Y(Math.log10(top))}" y2="${Y(Math.log10(top))}" stroke="currentColor" stroke-dasharray="5 3"/><text x="470" y="${Y(Math.log10(top)) - 5}">issue: ${si(top)} instructions/s</text>`;
    const words = [];
    roofs.forEach(([name, bw, b], i) => {
      const knee = Math.log10(top / bw), at = Math.log10(issued / b), low = Math.max(x0, y0 - Math.log10(bw));
      out += `<line x1="${X(low)}" y1="${Y(Math.log10(bw) + low)}" x2="${X(Math.min(knee, x1))}" y2="${Y(Math.log10(bw) + Math.min(knee, x1))}" stroke="${colours[i + 1]}" stroke-width="2"/><text x="${X(low) + 150}" y="${Y(Math.log10(bw) + low) + 4 + 18 * (1 - i)}" style="fill:${colours[i + 1]}">${name} ${si(bw)}B/s</text>`;
      out += `<circle cx="${X(Math.max(x0, Math.min(x1, at)))}" cy="${Y(Math.max(y0, Math.log10(rate)))}" r="6" fill="${colours[i + 1]}"><title>${name}: ${(issued / b).toPrecision(3)} warp instructions a byte</title></circle>`;
      words.push(`${name}: ${(issued / b).toPrecision(3)} warp instructions a byte, ${(100 * b / (us * 1e-6) / bw).toFixed(0)}% of ${si(bw)}B/s`); });
    words.push(`issue: ${(100 * rate / top).toFixed(0)}% of ${si(top)} instructions a second`, `tensor cores: ${(100 * (r.tensor_busy || 0)).toFixed(0)}% busy`);
    out += `<text x="250" y="292">warp instructions a byte (log)</text><text x="62" y="14">warp instructions a second (log): ${si(rate)}</text>`;
    return svg(690, 300, 'Roofline', words.join('; '), out) + `<p>${esc(words.join('; '))}.</p>`;
  },
  reasons(r) {
    const total = r.sum.reduce((a, b) => a + b, 0) || 1; let x = 0, out = '';
    r.sum.forEach((v, i) => { const w = 690 * v / total; out += `<rect x="${x}" y="4" width="${w}" height="34" fill="${colours[i]}"><title>${esc(r.waits[i])}: ${(100 * v / total).toFixed(1)}%</title></rect>`; x += w; });
    const words = r.waits.map((n, i) => [r.sum[i], n]).sort((a, b) => b[0] - a[0]).filter(p => p[0] > 0).map(p => `${p[1]} ${(100 * p[0] / total).toFixed(0)}%`).join(', ');
    return svg(690, 42, 'Waits by reason', words, out) + legend(r.waits.map((n, i) => `${n} ${(100 * r.sum[i] / total).toFixed(0)}%`));
  },
  memory(r) {
    const m = r.memory, b = v => si(v) + 'B', boxes = [['SM', 0], ['L1', 170], ['L2', 340], ['memory', 510]];
    const flows = [[170, 32 * m.l1_sectors, 0], [340, 32 * m.l2_read_sectors, 32 * m.l2_write_sectors], [510, m.dram_read, m.dram_write]], most = Math.max(...flows.flatMap(f => [f[1], f[2]]), 1);
    let out = boxes.map(([n, x]) => `<rect x="${x}" y="20" width="90" height="90" rx="8" fill="none" stroke="currentColor"/><text x="${x + 12}" y="68">${n}</text>`).join('');
    flows.forEach(([x, read, write]) => {
      out += `<line x1="${x - 4}" x2="${x - 76}" y1="50" y2="50" stroke="${colours[4]}" stroke-width="${1 + 12 * read / most}"/><text x="${x - 74}" y="38">${b(read)}</text>`;
      if (write) out += `<line x1="${x - 76}" x2="${x - 4}" y1="90" y2="90" stroke="${colours[1]}" stroke-width="${1 + 12 * write / most}"/><text x="${x - 74}" y="112">${b(write)}</text>`; });
    if (m.copied) out += `<path d="M45 110V140H385V112" fill="none" stroke="${colours[6]}" stroke-width="3"/><text x="150" y="135">bulk copies ${b(m.copied)}</text>`;
    return svg(610, 150, 'Traffic between levels', `L1 ${b(32 * m.l1_sectors)}, L2 read ${b(32 * m.l2_read_sectors)} and written ${b(32 * m.l2_write_sectors)}, memory read ${b(m.dram_read)} and written ${b(m.dram_write)}`, out);
  },
  timeline(r) {
    const s = r.spans, rows = []; const add = (list, name) => { const by = new Map(); list.forEach(e => { if (!by.has(e[2])) by.set(e[2], []); by.get(e[2]).push(e); }); [...by.keys()].sort((a, b) => a - b).forEach(k => rows.push([`${name} ${k}`, by.get(k)])); };
    add(s.tensor, 'tensor core'); add(s.copies, 'copy engine'); add(s.warps, 'warp');
    if (!rows.length) return '<p>Nothing was recorded.</p>';
    const shown = rows.slice(0, 40), ends = shown.map(([, l]) => l[l.length - 1][1]).sort((a, b) => a - b), end = Math.max(2000, Math.min(30000, ends[ends.length - 1]));
    let out = '';
    shown.forEach(([name, list], i) => { out += `<text x="0" y="${26 + 14 * i}">${esc(name)}</text>`;
      list.forEach(e => { if (e[0] < end) out += `<rect x="${(110 + 880 * e[0] / end).toFixed(1)}" y="${16 + 14 * i}" width="${Math.max(.4, 880 * (Math.min(e[1], end) - e[0]) / end).toFixed(1)}" height="11" fill="${colours[e[3]]}"><title>${esc(name)}: ${esc(r.waits[e[3]])}, ${e[1] - e[0]} cycles at ${e[0]}</title></rect>`; }); });
    for (let k = 0; k <= 4; k++) out += `<text x="${100 + 220 * k}" y="11">${Math.round(end * k / 4)}</text>`;
    const words = `The first ${end} cycles of one SM, ${shown.length} rows: tensor cores and copy engine when they work, warps when they wait. ` + shown.slice(0, 6).map(([n, l]) => { const busy = l.reduce((a, e) => a + Math.max(0, Math.min(e[1], end) - Math.min(e[0], end)), 0); return `${n} ${Math.min(100, 100 * busy / end).toFixed(0)}%`; }).join(', ');
    return svg(1000, 30 + 14 * shown.length, 'Timeline of one SM', words, out) + `<p>${esc(words)} (share of the time).</p>` + legend(r.waits);
  }
};
document.querySelectorAll('.draw').forEach(el => { const r = records[+el.dataset.k]; if (r && r.spans) el.innerHTML = draw[el.dataset.draw](r); });
document.querySelectorAll('table.sortable').forEach(table => table.querySelectorAll('th button').forEach((button, column) => button.addEventListener('click', () => {
  const head = button.parentElement, down = head.getAttribute('aria-sort') !== 'descending', body = table.tBodies[0];
  table.querySelectorAll('th').forEach(th => th.removeAttribute('aria-sort')); head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const value = tr => { const t = tr.cells[column].textContent, n = parseFloat(t); return head.classList.contains('n') && !isNaN(n) ? n : t; };
  [...body.rows].sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1); }).forEach(tr => body.append(tr)); })));
document.body.dataset.drawn = document.querySelectorAll('.draw svg').length;
document.body.dataset.width = document.documentElement.scrollWidth;
)JS";

}  // namespace orrery::report
