// The pods as a living list.

import { arrange, attribute, badge, h, onFrame, onPause, text } from './dom.js';
import { age, bytes, cores, count, rate } from './format.js';
import { colour, spark, SPARK } from './plot.js';
import { current, ofContainer, ofPod, owner, restarts } from './state.js';
import { can, known, latest, missing } from './store.js';

export const title = 'Pods';

const COLUMNS = [
  { name: 'name', words: 'Pod', of: (pod) => `${pod.name}/${pod.namespace}` },
  { name: 'state', words: 'State', of: (pod) => ofPod(pod).words },
  { name: 'cpu', words: 'CPU', of: (pod) => latest(pod.id).cpu ?? -1, falling: true },
  { name: 'memory', words: 'Memory', of: (pod) => latest(pod.id).memory ?? -1, falling: true },
  { name: 'network', words: 'Network', css: 'roomy', of: (pod) => (latest(pod.id).rx ?? 0) + (latest(pod.id).tx ?? 0), falling: true },
  { name: 'restarts', words: 'Restarts', css: 'roomy number', of: restarts, falling: true },
  { name: 'age', words: 'Age', css: 'fair number', of: (pod) => -pod.created },
  { name: 'address', words: 'Address', css: 'spacious', of: (pod) => pod.ips?.[0] ?? '' },
  { name: 'handler', words: 'Handler', css: 'spacious', of: (pod) => pod.handler ?? '' },
];

const GROUPS = {
  '': ['not grouped', () => ''],
  namespace: ['by namespace', (pod) => pod.namespace],
  owner: ['by owner', owner],
  handler: ['by handler', (pod) => pod.handler || 'default'],
};

export function open(root, { query, remember }) {
  const shows = {
    filter: query.get('filter') ?? '',
    sort: COLUMNS.some(({ name }) => name === query.get('sort')) ? query.get('sort') : 'name',
    falling: query.get('order') === 'falling',
    group: Object.hasOwn(GROUPS, query.get('group') ?? '') ? query.get('group') ?? '' : '',
  };
  const rows = new Map();
  const heads = new Map();
  const seen = new Set();
  let hasDrawn = false;
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) seen.add(target);
      else seen.delete(target);
    }
    figures();
  });

  const filter = h('input', { type: 'search', id: 'filter', value: shows.filter, placeholder: 'name, namespace, label=value, state', autocomplete: 'off', spellcheck: 'false' });
  const group = h('select', { id: 'group' }, Object.entries(GROUPS).map(([name, [words]]) => h('option', { value: name, selected: name === shows.group }, words)));
  const tally = h('p', { css: 'dim', role: 'status' });
  const body = h('tbody');
  const titles = COLUMNS.map((column) => {
    const button = h('button', { type: 'button', css: 'sort', on: { click: () => sortBy(column) } }, column.words);
    return { column, cell: h('th', { scope: 'col', css: column.css }, button) };
  });
  root.append(
    h('h1', null, 'Pods'),
    h('form', { css: 'controls', on: { submit: (event) => event.preventDefault() } },
      h('label', { for: 'filter' }, 'Filter'), filter, h('label', { for: 'group' }, 'Group'), group),
    tally,
    !can('usage') && known.hello ? h('p', { css: 'notice' }, `No usage data: ${missing('usage')}.`) : '',
    h('table', { css: 'living' }, h('caption', { css: 'hidden' }, 'pods of this node'), h('thead', null, h('tr', null, titles.map(({ cell }) => cell))), body));

  const note = () => remember({ filter: shows.filter, sort: shows.sort === 'name' ? '' : shows.sort, order: shows.falling ? 'falling' : '', group: shows.group });
  filter.addEventListener('input', onPause(() => {
    shows.filter = filter.value;
    note();
    draw();
  }));
  group.addEventListener('change', () => {
    shows.group = group.value;
    note();
    draw();
  });

  function sortBy(column) {
    shows.falling = shows.sort === column.name ? !shows.falling : Boolean(column.falling);
    shows.sort = column.name;
    note();
    draw();
  }

  function draw() {
    const column = COLUMNS.find(({ name }) => name === shows.sort);
    for (const { column: one, cell } of titles) {
      attribute(cell, 'aria-sort', one === column ? (shows.falling ? 'descending' : 'ascending') : null);
    }
    const wanted = matcher(shows.filter);
    const pods = [...known.pods.values()].filter(wanted);
    const keys = new Map(pods.map((pod) => [pod, column.of(pod)]));
    const sign = shows.falling ? -1 : 1;
    pods.sort((a, b) => sign * compare(keys.get(a), keys.get(b)) || compare(a.name, b.name) || compare(a.id, b.id));
    const order = shows.group ? grouped(pods) : pods.map(rowOf);
    arrange(body, order);
    // Who was there before is not shown as new.
    hasDrawn ||= known.pods.size > 0;
    for (const [id, row] of rows) {
      if (!known.pods.has(id)) {
        watcher.unobserve(row);
        seen.delete(row);
        rows.delete(id);
      }
    }
    const hidden = known.pods.size - pods.length;
    text(tally, known.link === 'connecting' ? 'Waiting for the node.' : `${count(pods.length, 'pod')}${hidden ? `, ${hidden} filtered out` : ''}`);
    figures();
  }

  function grouped(pods) {
    const groups = new Map();
    const of = GROUPS[shows.group][1];
    for (const pod of pods) {
      const name = of(pod);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(pod);
    }
    for (const name of heads.keys()) if (!groups.has(name)) heads.delete(name);
    return [...groups].sort(([a], [b]) => compare(a, b)).flatMap(([name, all]) => {
      if (!heads.has(name)) heads.set(name, makeHead(name));
      heads.get(name).show(all);
      return [heads.get(name), ...all.map(rowOf)];
    });
  }

  function rowOf(pod) {
    let row = rows.get(pod.id);
    if (!row) {
      row = makeRow(pod, hasDrawn);
      rows.set(pod.id, row);
      watcher.observe(row);
    }
    row.show(pod);
    return row;
  }

  const figures = onFrame(() => {
    // All texts before all lines: a line that is drawn has the browser lay out what was written.
    seen.forEach((row) => row.write());
    seen.forEach((row) => row.draw());
    heads.forEach((head) => head.add());
  });
  // Sorted by a figure, the list moves with it, though not under a hand that points at it.
  const again = onFrame(() => (['cpu', 'memory', 'network'].includes(shows.sort) && !body.matches(':hover') ? draw() : figures()));
  draw();
  const ticking = setInterval(() => rows.forEach((row) => row.tick()), 5000);
  return {
    on(what) {
      if (what === 'pods' || what === 'hello' || what === 'link') draw();
      if (what === 'usage' || what === 'history') again();
      if (what === 'theme') figures();
    },
    stop() {
      clearInterval(ticking);
      watcher.disconnect();
    },
    key(event) {
      if (event.key !== 'j' && event.key !== 'k') return;
      const links = [...body.querySelectorAll('a.to-pod')];
      const at = links.indexOf(document.activeElement);
      links.at(event.key === 'j' ? Math.min(at + 1, links.length - 1) : Math.max(at - 1, 0))?.focus();
    },
  };
}

function compare(a, b) {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Words that a pod must all have: in its names, its state, its owner, or as label=value. */
function matcher(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return (pod) => {
    if (words.length === 0) return true;
    const labels = Object.entries(pod.labels ?? {}).map(([name, value]) => `${name}=${value}`);
    const all = [pod.name, pod.namespace, pod.id, ofPod(pod).words, owner(pod), pod.handler, ...(pod.ips ?? []), ...labels, ...pod.containers.map(({ image }) => image)];
    const text = all.join('\n').toLowerCase();
    return words.every((word) => (word.startsWith('-') && word.length > 1 ? !text.includes(word.slice(1)) : text.includes(word)));
  };
}

/** The line above a group: how many pods, and what they use together. */
function makeHead(name) {
  const head = h('tr', { css: 'group' }, h('th', { colspan: COLUMNS.length, scope: 'rowgroup' }));
  let pods = [];
  head.show = (all) => {
    pods = all;
    head.add();
  };
  head.add = () => {
    const sum = (what) => pods.reduce((total, pod) => total + (latest(pod.id)[what] ?? 0), 0);
    text(head.firstChild, `${name}: ${count(pods.length, 'pod')}, ${cores(sum('cpu'))} cores, ${bytes(sum('memory'))}`);
  };
  return head;
}

function makeRow(first, isNew) {
  const link = h('a', { css: 'to-pod', href: `/pod/${encodeURIComponent(first.id)}` }, first.name);
  const namespace = h('span', { css: 'dim' }, first.namespace);
  const state = h('td');
  const line = () => h('canvas', { css: 'spark', 'aria-hidden': 'true' });
  const cpu = { line: line(), words: h('span') };
  const memory = { line: line(), words: h('span') };
  const network = h('td', { css: 'roomy' });
  const again = h('td', { css: 'roomy number' });
  const old = h('td', { css: 'fair number' });
  const address = h('td', { css: 'spacious' });
  const handler = h('td', { css: 'spacious' });
  const cell = ({ line, words }) => h('td', { css: 'figure-cell' }, line, words);
  const row = h('tr', { css: isNew ? 'new' : null }, h('th', { scope: 'row' }, link, namespace), state, cell(cpu), cell(memory), network, again, old, address, handler);
  let pod = first;
  let drawn = '';
  row.show = (now) => {
    pod = now;
    const containers = current(pod);
    const key = JSON.stringify([pod.state, containers.map(({ name, state, exit_code, reason }) => [name, state, exit_code, reason])]);
    if (key !== drawn) {
      drawn = key;
      const { kind, words } = ofPod(pod);
      state.replaceChildren(badge(kind, words), h('span', { css: 'dots' }, containers.map((container) => {
        const is = ofContainer(container);
        return h('span', { css: `dot ${is.kind}`, title: `${container.name}: ${is.words}` });
      })));
    }
    text(again, restarts(pod) || '');
    text(address, pod.host_network ? 'host network' : pod.ips?.[0]);
    text(handler, pod.handler || 'default');
    row.tick();
  };
  row.tick = () => text(old, age(pod.created));
  row.write = () => {
    const last = latest(pod.id);
    text(cpu.words, cores(last.cpu));
    text(memory.words, bytes(last.memory));
    text(network, last.rx == null ? '–' : `↓ ${rate(last.rx)} ↑ ${rate(last.tx)}`);
  };
  row.draw = () => {
    if (!row.isConnected) return;
    const points = (known.ofPods.get(pod.id) ?? []).slice(-SPARK);
    spark(cpu.line, points.map((point) => point[1] ?? 0), colour('cpu'));
    spark(memory.line, points.map((point) => point[2] ?? 0), colour('memory'));
  };
  setTimeout(() => row.classList.remove('new'), 2500);
  return row;
}

