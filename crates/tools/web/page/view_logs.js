// Logs of one or more containers: followed, searched, with JSON folded out.

import { fill, h, onFrame, onPause, text } from './dom.js';
import { count, exactClock, moment } from './format.js';
import { stream } from './live.js';
import { current, ofContainer } from './state.js';
import { known } from './store.js';
import { tree } from './tree.js';

export const title = 'Logs';

/** So many lines are kept; older ones are forgotten. */
const KEPT = 100_000;
const FORGET = 10_000;
/** As many characters, too. */
const HEAVIEST = 64_000_000;
/** So much of a line is shown in its row, and so much where it is chosen. */
const ROW = 4000;
const CHOSEN = 64_000;
const HEIGHT = 20;
/** Lines that are looked at before the browser may draw again. */
const SLICE = 4000;

const REASONS = {
  lost: 'the web server does not respond',
  refused: 'the server refused this log: the limit of followed logs is reached, or the container does not exist',
  paused: 'paused',
};

const LEVELS = ['trace', 'debug', 'info', 'warning', 'error'];

export function open(root, { query, remember }) {
  const chosen = [...new Set(query.getAll('container'))];
  const shows = { search: query.get('search') ?? '', level: query.get('level') ?? '', from: Number(query.get('tail')) || 10_000 };
  const heading = h('h1', null, 'Logs');
  root.append(heading);
  const note = () => remember({ container: chosen, search: shows.search, level: shows.level, tail: shows.from === 10_000 ? '' : shows.from });
  if (chosen.length === 0) return picker(root, known);

  const lines = [];
  let found = lines;
  let following = true;
  let caught = false;
  let picked = -1;
  let search = null;
  let generation = 0;
  let sifting = false;
  let problem = '';

  const status = h('p', { css: 'dim tally' });
  // Told to who does not see it: what a search has found, and which line is chosen.
  const said = h('p', { css: 'hidden', role: 'status' });
  const field = h('input', { type: 'search', id: 'search', value: shows.search, placeholder: 'text or /pattern/', spellcheck: 'false', autocomplete: 'off' });
  const level = h('select', { id: 'level' }, h('option', { value: '' }, 'all'), LEVELS.map((name) => h('option', { value: name, selected: name === shows.level }, `${name} and up`)));
  const follow = h('button', { type: 'button', 'aria-pressed': 'true' }, 'Follow');
  const sizer = h('div', { css: 'sizer' });
  const port = h('div', { css: 'log', tabindex: '0', role: 'log', 'aria-live': 'off', 'aria-label': 'log lines' }, sizer);
  const detail = h('aside', { css: 'detail', hidden: true, 'aria-label': 'selected line' });
  const tags = h('ul', { css: 'tags' });
  root.append(tags,
    h('form', { css: 'controls', on: { submit: (event) => event.preventDefault() } },
      h('label', { for: 'search' }, 'Search'), field, h('label', { for: 'level' }, 'Level'), level, follow),
    status, said, port, detail);

  const names = new Map();
  const nameOf = (id) => {
    if (!names.has(id)) {
      for (const pod of known.pods.values()) {
        const container = pod.containers.find((one) => one.id === id);
        if (container) names.set(id, { pod, container, words: `${pod.name} ${container.name}` });
      }
    }
    return names.get(id);
  };
  let tagged = null;
  const tellTags = () => {
    const now = chosen.map((id) => nameOf(id)?.words ?? '').join('\n');
    if (now === tagged) return;
    tagged = now;
    fill(tags, chosen.map(tag));
  };
  const tag = (id, n) => {
    const name = nameOf(id);
    return h('li', { css: `tag hue-${n % 6}` }, name ? h('a', { href: `/pod/${encodeURIComponent(name.pod.id)}` }, name.words) : id.slice(0, 12));
  };

  // What the server sends; a stream that is opened again sends all anew.
  const ended = new Map();
  let waiting = [];
  let weight = 0;
  const forget = () => {
    lines.length = 0;
    found = search || shows.level ? [] : lines;
    waiting = [];
    weight = 0;
    caught = false;
    ended.clear();
  };
  const path = `/api/logs?${chosen.map((id) => `container=${encodeURIComponent(id)}`).join('&')}&tail=${shows.from}`;
  const close = stream(path, {
    lines({ container, lines: sent }) {
      problem = '';
      const hue = chosen.indexOf(container);
      for (const [time, stream, words] of sent) waiting.push({ time: time ?? 0, stream, words, hue, parsed: undefined });
      // A log that grows faster than it is read is shown nevertheless.
      if (caught || waiting.length > FORGET) settle();
    },
    caught() {
      caught = true;
      settle();
    },
    ended({ container, why }) {
      ended.set(container, why);
      if (ended.size === chosen.length) close();
      tally();
    },
  }, (what) => {
    forget();
    problem = REASONS[what];
    tally();
  });

  const settle = onFrame(() => {
    const fresh = waiting.sort((a, b) => a.time - b.time);
    waiting = [];
    if (fresh.length === 0) return tally();
    const isLater = lines.length === 0 || fresh[0].time >= lines.at(-1).time;
    for (const line of fresh) lines.push(line);
    if (!isLater) lines.sort((a, b) => a.time - b.time);
    weight += fresh.reduce((sum, line) => sum + line.words.length, 0);
    const isFull = lines.length > KEPT + FORGET || weight > HEAVIEST;
    if (isFull) {
      let from = Math.max(0, lines.length - KEPT);
      for (let n = 0; n < from; n += 1) weight -= lines[n].words.length;
      for (; weight > HEAVIEST / 2 && from < lines.length; from += 1) weight -= lines[from].words.length;
      lines.splice(0, from);
    }
    if (found === lines) {
      draw();
    } else if (!isLater || isFull) {
      sift();
    } else if (!sifting) {
      found.push(...fresh.filter(matches));
      draw();
    }
    tally();
  });

  const matches = (line) => (!shows.level || rank(line) >= LEVELS.indexOf(shows.level)) && (!search || search.test(line.words));

  /** Looks through all lines, a slice at a time. */
  async function sift() {
    generation += 1;
    const mine = generation;
    sifting = Boolean(search || shows.level);
    found = sifting ? [] : lines;
    for (let from = 0; sifting && from < lines.length; from += SLICE) {
      for (const line of lines.slice(from, from + SLICE)) if (matches(line)) found.push(line);
      draw();
      await new Promise((resolve) => setTimeout(resolve));
      if (mine !== generation) return;
    }
    sifting = false;
    draw();
    tally();
    text(said, status.textContent);
  }

  function tally() {
    const all = count(lines.length, 'line');
    const part = found === lines ? all : `${found.length} of ${all}`;
    const over = chosen.length && ended.size === chosen.length ? ', ended' : '';
    text(status, problem || (caught ? `${part}${over}` : 'reading'));
    const why = [...new Set(ended.values())].filter(Boolean).join('; ');
    status.title = why;
  }

  // Only what is in sight has elements.
  const pool = [];
  const draw = onFrame(() => {
    sizer.style.height = `${found.length * HEIGHT}px`;
    if (following) port.scrollTop = port.scrollHeight;
    const first = Math.max(0, Math.floor(port.scrollTop / HEIGHT) - 4);
    const last = Math.min(found.length, Math.ceil((port.scrollTop + port.clientHeight) / HEIGHT) + 4);
    while (pool.length < last - first) {
      const row = h('div', { css: 'line' });
      pool.push(row);
      sizer.append(row);
    }
    pool.forEach((row, n) => {
      const at = first + n;
      row.hidden = at >= last;
      if (row.hidden) return;
      row.style.top = `${at * HEIGHT}px`;
      row.classList.toggle('picked', at === picked);
      row.at = at;
      if (row.line === found[at] && row.search === search) return;
      row.line = found[at];
      row.search = search;
      paint(row, found[at], chosen.length > 1, search);
    });
  });

  port.addEventListener('scroll', () => {
    const isAtEnd = port.scrollTop + port.clientHeight >= port.scrollHeight - HEIGHT;
    if (following && !isAtEnd && Date.now() - pushed < 1000) setFollowing(false);
    else if (!following && isAtEnd) setFollowing(true);
    draw();
  });
  // Lines that arrive move the view, too: only a hand's move ends following.
  let pushed = 0;
  for (const kind of ['wheel', 'touchmove', 'pointerdown', 'keydown']) port.addEventListener(kind, () => (pushed = Date.now()), { passive: true });
  function setFollowing(now) {
    following = now;
    follow.setAttribute('aria-pressed', String(now));
    if (now) draw();
  }
  follow.addEventListener('click', () => setFollowing(!following));

  port.addEventListener('click', (event) => {
    const row = event.target.closest('.line');
    if (row && !String(getSelection())) pick(row.at);
  });
  port.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.shiftKey) return;
    event.preventDefault();
    pick(Math.min(found.length - 1, Math.max(0, (picked < 0 ? Math.ceil(port.scrollTop / HEIGHT) - 1 : picked) + step)));
  });

  function pick(at) {
    if (!found[at]) return;
    picked = at;
    setFollowing(false);
    const top = at * HEIGHT;
    if (top < port.scrollTop) port.scrollTop = top;
    if (top + HEIGHT > port.scrollTop + port.clientHeight) port.scrollTop = top + HEIGHT - port.clientHeight;
    const line = found[at];
    const value = parsed(line);
    const close = h('button', { type: 'button', on: { click: shut } }, 'Close');
    fill(detail,
      h('header', null, h('strong', null, moment(line.time)), ` ${line.stream === 2 ? 'stderr' : 'stdout'} ${nameOf(chosen[line.hue])?.words ?? ''}`, close),
      value ? tree(value) : h('pre', null, plain(line.words.slice(0, CHOSEN))));
    text(said, line.words.slice(0, 300));
    detail.hidden = false;
    draw();
  }

  function shut() {
    detail.hidden = true;
    picked = -1;
    port.focus();
    draw();
  }

  field.addEventListener('input', onPause(() => {
    shows.search = field.value;
    searchAnew();
  }));
  level.addEventListener('change', () => {
    shows.level = level.value;
    searchAnew();
  });
  function searchAnew() {
    note();
    picked = -1;
    search = pattern(shows.search);
    field.setAttribute('aria-invalid', String(search === undefined));
    if (search !== undefined) sift();
  }
  search = pattern(shows.search) ?? null;
  if (search || shows.level) found = [];
  const size = new ResizeObserver(draw);
  size.observe(port);
  tellTags();
  tally();
  return {
    on(what) {
      if (what === 'pods') tellTags();
    },
    stop() {
      generation += 1;
      close();
      size.disconnect();
    },
    key(event) {
      if (event.key === 'Escape' && !detail.hidden) shut();
      if (event.key === 'f') setFollowing(!following);
    },
  };
}

/** What is looked for: words as they are, or a pattern between slashes. Undefined is no pattern. */
function pattern(words) {
  if (!words) return null;
  const between = /^\/(.+)\/$/.exec(words);
  try {
    return new RegExp(between ? between[1] : words.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i');
  } catch {
    return undefined;
  }
}

/** A line's JSON, if it is some. */
function parsed(line) {
  if (line.parsed === undefined) {
    line.parsed = null;
    if (line.words.startsWith('{')) {
      try {
        line.parsed = JSON.parse(line.words);
      } catch {
        // A line that only looks like it.
      }
    }
  }
  return line.parsed;
}

const WORDS = [/\btrace\b/i, /\bdebug\b/i, /\binfo\b|\bnotice\b/i, /\bwarn(ing)?\b/i, /\berr(or)?\b|\bfatal\b|\bpanic\b|\bcrit(ical)?\b/i];
const NUMBERS = { 10: 0, 20: 1, 30: 2, 40: 3, 50: 4, 60: 4 };

/** How grave a line is, as a place in LEVELS; what tells nothing is an information. */
function rank(line) {
  if (line.rank !== undefined) return line.rank;
  const value = parsed(line);
  const told = value && (value.level ?? value.lvl ?? value.severity);
  let rank = -1;
  if (typeof told === 'number') rank = NUMBERS[told] ?? -1;
  else if (typeof told === 'string') rank = WORDS.findLastIndex((word) => word.test(told));
  else {
    const klog = /^([IWEF])\d{4} /.exec(line.words);
    const start = line.words.slice(0, 120);
    rank = klog ? { I: 2, W: 3, E: 4, F: 4 }[klog[1]] : WORDS.findLastIndex((word) => word.test(start));
  }
  line.rank = rank < 0 ? 2 : rank;
  return line.rank;
}

/** Text without what would colour a terminal. */
function plain(words) {
  return words.replace(/\u001b\[[0-9;?]{0,60}[A-Za-z]|\u001b\][^\u0007\u001b]{0,1000}\u0007/g, '');
}

function paint(row, line, isTagged, search) {
  const value = parsed(line);
  const place = rank(line);
  row.className = `line level-${LEVELS[place]}${line.stream === 2 ? ' stderr' : ''}`;
  const words = value ? inline(value) : plain(line.words.slice(0, ROW));
  fill(row,
    h('time', null, line.time ? exactClock(line.time) : '–'),
    isTagged && h('span', { css: `stripe hue-${line.hue % 6}` }),
    place > 2 && h('span', { css: 'level' }, LEVELS[place]),
    h('span', { css: 'words' }, marked(words, search)));
}

/** A JSON line as its message, with the rest behind it. */
function inline(value) {
  const { msg, message, level, lvl, severity, time, ts, timestamp, ...rest } = value;
  const head = msg ?? message ?? '';
  const tail = Object.entries(rest).slice(0, 30).map(([name, one]) => `${name}=${written(one)}`);
  return [written(head), ...tail].filter(Boolean).join('  ').slice(0, ROW);
}

/** A value in a row. One that is too deep to be written is its beginning. */
function written(value) {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value);
  } catch {
    return '…';
  }
}

function marked(words, search) {
  if (!search) return words;
  const parts = [];
  let rest = words;
  for (let n = 0; n < 20; n += 1) {
    const found = search.exec(rest);
    if (!found || found[0] === '') break;
    parts.push(rest.slice(0, found.index), h('mark', null, found[0]));
    rest = rest.slice(found.index + found[0].length);
  }
  return [...parts, rest];
}

/** Which containers' logs there are. */
function picker(root) {
  const list = h('ul', { css: 'picker' });
  const button = h('a', { css: 'button', href: '/logs', 'aria-disabled': 'true' }, 'Show');
  const field = h('input', { type: 'search', id: 'search', placeholder: 'pod or container', autocomplete: 'off' });
  const boxes = new Map();
  root.append(h('form', { css: 'controls', on: { submit: (event) => event.preventDefault() } }, h('label', { for: 'search' }, 'Filter'), field, button), list);
  const choose = () => {
    const chosen = [...boxes.values()].filter(({ checked }) => checked);
    button.setAttribute('href', chosen.length ? `/logs?${chosen.map(({ value }) => `container=${encodeURIComponent(value)}`).join('&')}` : '/logs');
    button.setAttribute('aria-disabled', String(chosen.length === 0));
    text(button, chosen.length ? `Show ${count(chosen.length, 'log')}` : 'Show');
  };
  const draw = () => {
    const wanted = field.value.toLowerCase();
    const pods = [...known.pods.values()].sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
    const entries = pods.flatMap((pod) => current(pod).map((container) => ({ pod, container })))
      .filter(({ pod, container }) => `${pod.namespace}/${pod.name} ${container.name}`.toLowerCase().includes(wanted));
    fill(list, entries.map(({ pod, container }) => {
      let box = boxes.get(container.id);
      if (!box) {
        box = h('input', { type: 'checkbox', value: container.id, on: { change: choose } });
        boxes.set(container.id, box);
      }
      return h('li', null, h('label', null, box, ` ${pod.namespace}/${pod.name} ${container.name} `, h('span', { css: 'dim' }, ofContainer(container).words)));
    }), entries.length === 0 && h('li', { css: 'dim' }, 'No containers.'));
  };
  field.addEventListener('input', draw);
  draw();
  return {
    on(what) {
      if (what === 'pods' || what === 'hello') draw();
    },
    stop() {},
  };
}
