// The node: what it uses over time, what it can do, what is wrong with it, what has happened.

import { arrange, badge, card, facts, fill, h, table } from './dom.js';
import { bytes, clock, cores, count, rate } from './format.js';
import { Plot } from './plot.js';
import { can, known, missing } from './store.js';

export const title = 'Node';

export function open(root) {
  const about = h('p', { css: 'dim' });
  const plots = [
    new Plot({ title: 'CPU', series: [{ name: 'cores', ink: 'cpu', of: (point) => point.node.cpu }], points: () => known.usage, show: cores }),
    new Plot({ title: 'Memory', series: [{ name: 'used', ink: 'memory', of: (point) => point.node.memory }], points: () => known.usage, show: bytes, limit: () => known.hello?.memory_total }),
    new Plot({
      title: 'Network',
      series: [
        { name: 'received', ink: 'rx', of: (point) => point.node.rx },
        { name: 'sent', ink: 'tx', of: (point) => point.node.tx },
      ],
      points: () => known.usage,
      show: rate,
    }),
    new Plot({
      title: 'Image disk',
      series: [{ name: 'used', ink: 'disk', of: (point) => point.node.disk_used }],
      points: () => known.usage,
      show: bytes,
      limit: () => known.usage.at(-1)?.node.disk_capacity,
    }),
    new Plot({
      title: 'Pods / containers',
      series: [
        { name: 'pods', ink: 'cpu', of: (point) => point.node.pods },
        { name: 'containers', ink: 'memory', of: (point) => point.node.containers },
      ],
      points: () => known.usage,
      show: (value) => (value == null ? '–' : String(Math.round(value))),
    }),
  ];
  const node = h('div', { css: 'columns' });
  const events = h('ol', { css: 'events' });
  root.append(h('h1', null, 'Node'), about, h('div', { css: 'plots' }, plots.map((plot) => plot.element)), node, card('Latest events', events));

  const tellAbout = () => {
    const hello = known.hello;
    if (!hello) return;
    const { name, version, api } = hello.runtime ?? {};
    about.textContent = `${hello.host}: ${name ?? ''} ${version ?? ''}, CRI ${api ?? ''}, at ${hello.endpoint}, ${count(hello.cores ?? 0, 'core')}, ${bytes(hello.memory_total)}`;
  };
  const tellNode = () => fill(node, conditions(), findings(), handlers(), untold());
  const tellEvents = () => {
    const shown = known.events.slice(0, 40);
    arrange(events, shown.length ? shown.map(event) : [h('li', { css: 'dim' }, can('events') ? 'No events since this page was opened.' : missing('events'))]);
  };
  const draw = () => plots.forEach((plot) => plot.draw());
  tellAbout();
  tellNode();
  tellEvents();
  draw();
  return {
    on(what) {
      if (what === 'hello') tellAbout();
      if (what === 'node' || what === 'hello') tellNode();
      if (what === 'event' || what === 'hello') tellEvents();
      if (what === 'usage' || what === 'history' || what === 'theme') draw();
    },
    stop() {
      plots.forEach((plot) => plot.stop());
    },
  };
}

const lines = new WeakMap();

/** An event as a line, made once: who, and a way there. */
export function event(entry) {
  if (!lines.has(entry)) lines.set(entry, line(entry));
  return lines.get(entry);
}

function line(entry) {
  const pod = entry.pod_name ? `${entry.namespace}/${entry.pod_name}` : entry.pod;
  return h('li', null,
    h('time', null, clock(entry.time)), ' ',
    badge({ started: 'good', stopped: 'done', created: 'soon', deleted: 'done' }[entry.kind] ?? 'done', entry.kind), ' ',
    known.pods.has(entry.pod) ? h('a', { href: `/pod/${encodeURIComponent(entry.pod)}` }, pod) : pod,
    entry.container_name && ` ${entry.container_name}`);
}

function conditions() {
  const all = known.node?.conditions ?? [];
  return card('Conditions', all.length === 0 && h('p', { css: 'dim' }, 'The runtime reports no conditions.'),
    h('ul', { css: 'findings' }, all.map(({ name, ok, reason, message }) =>
      h('li', null, badge(ok ? 'good' : 'bad', ok ? 'yes' : 'no'), ` ${name}`, (reason || message) && h('p', { css: 'dim' }, [reason, message].filter(Boolean).join(': '))))));
}

const LEVELS = { ok: 'good', warning: 'soon', problem: 'bad' };

function findings() {
  if (!can('doctor')) return card('Doctor', h('p', { css: 'dim' }, missing('doctor')));
  const all = known.node?.findings;
  if (!all) return card('Doctor', h('p', { css: 'dim' }, 'Checking.'));
  const worst = all.filter((finding) => finding.level !== 'ok');
  return card('Doctor',
    worst.length === 0 && h('p', null, badge('good', 'ok'), ` ${count(all.length, 'check')}, no problems found.`),
    h('ul', { css: 'findings' }, worst.map(({ area, level, text, remedy }) =>
      h('li', null, badge(LEVELS[level] ?? 'soon', level), ` ${area}: ${text}`, remedy && h('p', { css: 'dim' }, remedy)))));
}

function handlers() {
  const all = known.node?.handlers ?? [];
  if (all.length === 0) return null;
  return card('Runtime handlers', table('runtime handlers', ['Name', 'Features'], all.map(({ name, features }) => [name || 'default', (features ?? []).join(', ') || '–'])));
}

function untold() {
  const all = known.hello?.missing ?? [];
  return all.length > 0 && card('Data that this endpoint does not report', facts(all.map(({ what, why }) => [what, why])));
}
