/* What the daemon does, once a second, from /status.json. Rates are differences of two answers. The history of two minutes is
 * here, in the browser; the daemon keeps none. Nothing is asked of any other origin. */
'use strict';
const EVERY_MS = 1000, KEEP = 120, LATELY = 10, FIRST_LE = 10;
const $ = (id) => document.getElementById(id);
const STAGE_NAMES = { queue: 'queue', copy: 'copy', kernel: 'kernel', total: 'receipt to reply' };
const STAGES = Object.keys(STAGE_NAMES);

/* ---- numbers for people ---- */
function amount(n) {
  if (n >= 1e6) return (n / 1e6).toPrecision(3) + ' M';
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString('en') : n.toPrecision(3);
}
const whole = (n) => n.toLocaleString('en');
function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let u = 0;
  for (; n >= 1024 && u + 1 < units.length; u++) n /= 1024;
  return (u ? n.toFixed(1) : Math.round(n)) + ' ' + units[u];
}
function seconds(s) {
  if (s >= 3600) return Math.floor(s / 3600) + ' h ' + Math.floor((s / 60) % 60) + ' min';
  if (s >= 60) return Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s';
  if (s >= 1) return s.toPrecision(3) + ' s';
  if (s === 0) return '\u2013';
  return s >= 1e-3 ? (s * 1e3).toPrecision(3) + ' ms' : (s * 1e6).toPrecision(3) + ' \u00b5s';
}
const part = (n, cap) => (cap > 0 ? `${bytes(n)} of ${bytes(cap)}` : bytes(n));
const percent = (x) => (100 * x).toFixed(x < 0.1 ? 1 : 0) + ' %';

/* ---- elements ---- */
function make(tag, attributes, ...children) {
  const e = /^(svg|path|line|rect)$/.test(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
/* A table's body; the first cell of each row is its heading. `raw` keeps the exact number beside its short form. */
function fill(table, rows, none) {
  const made = rows.map((cells) => make('tr', {}, ...cells.map((c, i) => {
    const cell = typeof c === 'object' && !(c instanceof Node) ? c : { text: c };
    return make(i ? 'td' : 'th', { ...(i ? {} : { scope: 'row' }), ...(cell.raw === undefined ? {} : { 'data-raw': cell.raw }) }, cell.text);
  })));
  $(table).tBodies[0].replaceChildren(...(made.length || !none ? made : [make('tr', {}, make('td', { colspan: 9 }, none))]));
}
const exact = (n) => ({ text: whole(n), raw: n });

/* ---- charts ---- */
const WIDTH = 240, HEIGHT = 60;
function line(values, most) {
  return values.map((v, i) => (i ? 'L' : 'M') + (WIDTH - (values.length - 1 - i) * WIDTH / (KEEP - 1)).toFixed(1) + ' ' +
    (HEIGHT - 1 - (HEIGHT - 4) * (most > 0 ? v / most : 0)).toFixed(1)).join('');
}
class Card {
  constructor(id, title, show) {
    this.title = title;
    this.show = show;
    this.value = make('p', { class: 'value' });
    this.note = make('p', { class: 'note' });
    this.area = make('path', { class: 'area' });
    this.lines = [make('path', { class: 'first' }), make('path', { class: 'second' })];
    this.svg = make('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' },
      make('line', { class: 'axis', x1: 0, y1: HEIGHT - 1, x2: WIDTH, y2: HEIGHT - 1 }), this.area, ...this.lines);
    $('cards').append(make('figure', { id }, make('h2', {}, title), this.value, this.svg, this.note));
  }
  /* `series`: the values of the last minutes, one or two lines; a fixed `top` for shares. */
  draw(series, text, note, top) {
    const highest = Math.max(0, ...series.flat()), most = top || highest;
    series.forEach((values, i) => this.lines[i].setAttribute('d', line(values, most)));
    const n = series[0].length;
    this.area.setAttribute('d', series.length === 1 && n ? line(series[0], most) + `V${HEIGHT - 1}H${(WIDTH - (n - 1) * WIDTH / (KEEP - 1)).toFixed(1)}Z` : '');
    this.value.textContent = text;
    this.note.textContent = note === undefined ? `most in 2 minutes: ${this.show(highest)}` : note;
    this.svg.setAttribute('aria-label', `${this.title}, last 2 minutes: now ${text}; ${this.note.textContent}`);
  }
}

/* ---- samples ---- */
const history = []; /* at most KEEP */
const lately = [];  /* the last answers, for the tables */
const sum = (list, key) => list.reduce((n, x) => n + x[key], 0);
const total = (object) => Object.values(object).reduce((a, b) => a + b, 0);
const requestsOf = (a) => sum(a.ops, 'ok') - sum(a.ops, 'pieces') + sum(a.ops, 'errors');

/* Seconds that the share q of the requests between two answers stayed below. */
function quantile(then, now, stage, q) {
  const below = now.times[stage].map((n, i) => n - (then ? then.times[stage][i] : 0)), all = below[below.length - 1];
  if (all <= 0) return 0;
  const i = below.findIndex((n) => n >= q * all), low = i ? below[i - 1] : 0;
  if (i === below.length - 1) return 2 ** (FIRST_LE + i - 1) * 1e-9;
  const from = i ? 2 ** (FIRST_LE + i - 1) : 0, to = 2 ** (FIRST_LE + i);
  return (from + (to - from) * (q * all - low) / (below[i] - low)) * 1e-9;
}
function sample(then, now) {
  const s = (now.now_ms - then.now_ms) / 1000, per = (a, b) => Math.max(0, b - a) / s;
  return {
    requests: per(requestsOf(then), requestsOf(now)), errors: per(then.status.errors, now.status.errors),
    bytes: per(total(then.bytes), total(now.bytes)), busy: Math.min(1, per(then.busy_s, now.busy_s)),
    median: quantile(then, now, 'total', 0.5), p99: quantile(then, now, 'total', 0.99), sessions: now.status.sessions,
  };
}

/* ---- the current view ---- */
const cards = {
  requests: new Card('card-requests', 'Requests a second', amount), bytes: new Card('card-bytes', 'Data a second', bytes),
  times: new Card('card-times', 'Time of a request', seconds), busy: new Card('card-busy', 'Engine busy', percent),
  errors: new Card('card-errors', 'Errors a second', amount), sessions: new Card('card-sessions', 'Sessions', amount),
};
const past = (key) => history.map((x) => x[key]);
function drawCards(now) {
  const last = history[history.length - 1];
  const best = now.best_bytes_per_s, share = best > 0 ? `${percent(last.bytes / best)} of the best second so far, ${bytes(best)}/s` : '';
  cards.requests.draw([past('requests')], amount(last.requests) + ' /s');
  cards.bytes.draw([past('bytes')], bytes(last.bytes) + '/s', share);
  cards.times.draw([past('median'), past('p99')], seconds(last.median), `median; dashed: 99 % below ${seconds(last.p99)}`);
  cards.busy.draw([past('busy')], percent(last.busy), undefined, 1);
  cards.errors.draw([past('errors')], amount(last.errors) + ' /s');
  cards.sessions.draw([past('sessions')], whole(last.sessions), `connections: ${now.status.connections}, requests under way: ${now.status.inflight}`);
}
function drawTables(then, now) {
  const s = (now.now_ms - then.now_ms) / 1000, st = now.status;
  const was = (list, same) => list.find(same), rate = (a, b) => (s > 0 ? Math.max(0, b - (a || 0)) / s : 0);
  fill('times', STAGES.map((x) => [STAGE_NAMES[x], ...[0.5, 0.9, 0.99].map((q) => seconds(quantile(then, now, x, q)))]));
  fill('ops', now.ops.map((o) => {
    const p = was(then.ops, (x) => x.op === o.op && x.dtype === o.dtype && x.path === o.path), n = o.ok - o.pieces;
    return [o.op, o.dtype, o.path, amount(rate(p && p.ok - p.pieces, n)), bytes(rate(p && p.bytes, o.bytes)) + '/s', exact(n), exact(o.pieces), exact(o.errors)];
  }).sort((a, b) => b[5].raw - a[5].raw), 'none so far');
  fill('devices', now.devices.map((d, i) => {
    const p = then.devices[i] || d, speed = rate(p.bytes, d.bytes), best = d.best_bytes_per_s;
    return [now.devices.length > 1 ? `${i} ${d.name}` : d.name, d.lost ? 'lost' : 'ok', percent(Math.min(1, rate(p.active_s, d.active_s))), bytes(speed) + '/s', bytes(best) + '/s', best > 0 ? percent(speed / best) : '',
      d.peak_bytes_per_s ? `${percent(speed / d.peak_bytes_per_s)} of ${bytes(d.peak_bytes_per_s)}/s` : 'unknown', exact(d.tasks), `${d.slots_busy} of ${d.slots}`, part(d.memory, d.memory_cap), part(d.resident, d.resident_cap)];
  }));
  fill('users', now.users.map((u) => {
    const p = was(then.users, (x) => x.uid === u.uid) || { requests: 0, pieces: 0, bytes: 0, engine_s: 0 };
    return [u.name || u.uid.replace(/^tls:/, ''), u.uid, percent(rate(p.engine_s, u.engine_s)), bytes(rate(p.bytes, u.bytes)) + '/s',
      amount(rate(p.requests - p.pieces, u.requests - u.pieces)), exact(u.requests - u.pieces), exact(u.errors)];
  }), 'none so far');
  const pools = [['device', 'pool.device.bytes', 'pool.device.cap'], ['pinned', 'pool.pinned.bytes', 'pool.pinned.cap'], ['locked', 'pool.locked.bytes', 'pool.locked.cap'],
    ['shared', 'side.arena_bytes', 'side.arena_cap'], ['resident', 'resident.bytes', 'resident.cap'], ['GPU, all processes', 'device.memory_bytes', 'device.memory_cap']];
  fill('pools', pools.filter((p) => st[p[2]] > 0).map(([name, used, cap]) => [name, { text: bytes(st[used]), raw: st[used] }, bytes(st[cap]), percent(st[used] / st[cap])]));
  const device = [['name', st.device], ['chosen', st.device_note], ['tasks', exact(st.tasks)], ['tasks on the device', exact(st.tasks_device)], ['slots in use', `${st['pool.slots_busy']} of ${st['pool.slots']}`],
    ['resident arrays', exact(st['resident.arrays'])], ['kept over a restart', exact(st['resident.kept'])]];
  if (st.devices_opening)
    device.push(['GPUs', 'opening']);
  if ('device.temperature_c' in st)
    device.push(['load', st['device.busy_percent'] + ' %'], ['temperature', st['device.temperature_c'] + ' \u00b0C'], ['power', st['device.power_w'].toFixed(0) + ' W']);
  fill('device', device);
  fill('errors', Object.keys(st).filter((k) => k.startsWith('errors.')).map((k) => [k.slice(7), exact(st[k])]), 'none so far');
  fill('slow', now.slow.map((x) => [`${x.op} ${x.dtype}`, x.path, bytes(x.bytes), seconds(Math.round(x.age_s)), seconds(x.queue_s), seconds(x.copy_s), seconds(x.kernel_s), seconds(x.total_s)]), 'none so far');
  fill('status', Object.entries(st).map(([k, v]) => [k, { text: String(v), raw: v }]));
}
/* A row for each session; the time between two answers is that of the page's own clock. */
let processes = { at: 0, rows: [] };
function drawProcesses(now, names) {
  const at = Date.now(), s = (at - processes.at) / 1000;
  fill('processes', now.processes.map((p) => {
    const was = processes.rows.find((x) => x.connection === p.connection && x.pid === p.pid), rate = (key) => (was && s > 0 ? Math.max(0, p[key] - was[key]) / s : 0);
    return [p.name, { text: String(p.pid), raw: p.pid }, names[p.uid] || p.uid, percent(rate('engine_s')), bytes(rate('bytes')) + '/s', amount(rate('requests') - rate('pieces')), exact(p.requests - p.pieces), exact(p.errors)];
  }), 'none now');
  const more = now.sessions - now.processes.length;
  const note = now.known ? (more ? `and ${whole(more)} more` : 'Yours; root and the daemon\u2019s user see all.') : 'Only a browser on this machine, asking for localhost, shows its user\u2019s processes. reducectl top has yours.';
  if ($('processes-note').textContent !== note) $('processes-note').textContent = note;
  processes = { at, rows: now.processes };
}
function drawHead(now) {
  const st = now.status, well = st.health === 'ok';
  $('who').textContent = `${st.version} \u00b7 ${st.backend} \u00b7 ${st.device} \u00b7 up ${seconds(Math.floor(st.uptime_s))}`;
  say(well ? 'Healthy: the last check, a real reduction, gave the right answer.' : `Health: ${st.health}.`, !well);
}
function say(text, bad) {
  if ($('health').textContent !== text) $('health').textContent = text; /* else a screen reader would repeat it */
  $('health').classList.toggle('bad', bad);
}

function take(now) {
  const then = lately[lately.length - 1];
  if (then && now.now_ms === then.now_ms) return; /* the daemon makes a new one each second */
  if (then && now.status.uptime_s < then.status.uptime_s) lately.length = 0; /* another daemon */
  if (lately.length) history.push(sample(lately[lately.length - 1], now));
  if (history.length > KEEP) history.shift();
  lately.push(now);
  if (lately.length > LATELY + 1) lately.shift();
  document.documentElement.dataset.samples = history.length;
  drawHead(now);
  if (history.length) drawCards(now);
  drawTables(lately[0], now);
}

let paused = false, answered = 0;
async function turn() {
  try {
    if (!paused && !document.hidden) {
      const reply = await fetch('status.json', { cache: 'no-store' });
      if (!reply.ok) throw new Error(reply.statusText);
      const now = await reply.json();
      take(now);
      const own = await fetch('processes.json', { cache: 'no-store' });
      if (own.ok) drawProcesses(await own.json(), Object.fromEntries(now.users.filter((u) => u.name).map((u) => [u.uid, u.name])));
      answered = Date.now();
    }
  } catch (e) {
    say(answered ? `No answer for ${Math.round((Date.now() - answered) / 1000)} s.` : 'The daemon does not answer.', true);
  }
  setTimeout(turn, EVERY_MS);
}

/* ---- the ladder ---- */
let run = [], pages = null;
const tableOf = (r) => `${r.dtype}, ${r.n.toLocaleString('en')} elements, block ${r.block}, ${r.finish}`;
function drawRungs() {
  const rows = run.filter((r) => tableOf(r) === $('run-table').value), most = Math.max(1, ...rows.map((r) => r.gbs || 0));
  $('rungs').tBodies[0].replaceChildren(...rows.map((r) => {
    const name = make('button', { type: 'button' }, r.rung), bar = make('svg', { viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      make('rect', { x: 0, y: 0, height: 8, width: (100 * (r.gbs || 0) / most).toFixed(1) }));
    name.addEventListener('click', () => explain(r.rung));
    const speed = r.verdict === 'right' ? make('td', {}, r.gbs.toFixed(1), bar) : make('td', { class: r.verdict === 'wrong' ? 'wrong' : '' }, r.verdict, ' ', r.note || '');
    return make('tr', {}, make('th', { scope: 'row' }, name), speed, make('td', {}, r.share ? percent(r.share) : ''), make('td', {}, r.ms ? seconds(r.ms / 1e3) : ''),
      make('td', {}, r.over_before ? r.over_before.toFixed(2) + ' \u00d7' : ''));
  }));
}
function explain(rung) {
  $('rung-name').textContent = rung;
  const name = rung.replace(/-/g, '_'); /* unroll is the page of unroll2, unroll4 and unroll8 */
  const page = Object.keys(pages).filter((p) => name.startsWith(p)).sort((a, b) => b.length - a.length)[0];
  $('rung-text').textContent = page ? pages[page] : 'This rung has no page.';
  $('rung-name').focus();
}
function showRun(records, from) {
  run = records;
  const first = run[0] || {};
  $('run-table').replaceChildren(...[...new Set(run.map(tableOf))].map((t) => make('option', {}, t)));
  $('run-note').textContent = `${from}: ${first.gpu || first.cpu || '?'}, ${first.date || ''}`;
  drawRungs();
}
async function openLadder() {
  if (pages) return;
  const stored = await (await fetch('ladder.json')).json();
  pages = stored.pages;
  showRun(stored.run, 'A stored run');
}
async function openRun(file) {
  try {
    const records = (await file.text()).trim().split('\n').map((l) => JSON.parse(l));
    if (!records.every((r) => typeof r.rung === 'string' && typeof r.n === 'number')) throw new Error();
    showRun(records, file.name);
  } catch {
    $('run-note').textContent = `${file.name} is not the output of reducectl ladder --json.`;
  }
}

/* ---- views ---- */
function choose() {
  const ladder = location.hash === '#ladder';
  $('now').hidden = ladder;
  $('ladder').hidden = !ladder;
  for (const [id, on] of [['to-now', !ladder], ['to-ladder', ladder]])
    if (on) $(id).setAttribute('aria-current', 'page');
    else $(id).removeAttribute('aria-current');
  if (ladder) openLadder().catch(() => { $('run-note').textContent = 'The daemon does not answer.'; });
}
$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', paused);
  $('pause').textContent = paused ? 'Go on' : 'Pause';
});
$('run-table').addEventListener('change', drawRungs);
$('run-file').addEventListener('change', (e) => e.target.files[0] && openRun(e.target.files[0]));
addEventListener('hashchange', choose);
for (const box of document.querySelectorAll('.scroll')) { /* the keyboard scrolls it: it needs a name */
  box.setAttribute('role', 'group');
  box.setAttribute('aria-label', box.querySelector('caption').textContent);
}
choose();
turn();
