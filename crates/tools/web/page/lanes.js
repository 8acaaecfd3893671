// The life of a pod's containers on a time line: a lane for each name, a bar for each attempt.

import { h, s } from './dom.js';
import { clock, duration, moment } from './format.js';
import { ofContainer } from './state.js';

const LANE = 26;
const LEFT = 120;
const WIDTH = 900;

/** Of a pod of the list. */
export function lanes(pod, now = Date.now()) {
  const names = [...new Set(pod.containers.map((container) => container.name))].sort();
  const times = pod.containers.flatMap((container) => [container.created, container.finished]).filter(Boolean);
  const ends = pod.containers.some((container) => container.state === 'running') || pod.state === 'ready' ? now : Math.max(...times, pod.created);
  const begin = Math.min(pod.created, ...times);
  const span = Math.max(1000, ends - begin);
  const x = (time) => LEFT + ((time - begin) / span) * (WIDTH - LEFT - 8);
  const height = names.length * LANE + 22;
  const bars = pod.containers.flatMap((container) => bar(container, names.indexOf(container.name), x, ends));
  const marks = [begin, begin + span / 2, begin + span].map((time, n) =>
    s('text', { x: x(time), y: height - 4, css: 'mark', 'text-anchor': ['start', 'middle', 'end'][n] }, clock(time)));
  const labels = names.map((name, n) => s('text', { x: 0, y: n * LANE + 17, css: 'lane' }, cut(name)));
  return h('div', { css: 'wide', tabindex: '0', role: 'region', 'aria-label': 'timeline of the containers' },
    s('svg', { css: 'lanes', viewBox: `0 0 ${WIDTH} ${height}`, 'aria-hidden': 'true' }, labels, bars, marks),
    h('ol', { css: 'hidden' }, pod.containers.map((container) => h('li', null, inWords(container)))));
}

function bar(container, lane, x, now) {
  const y = lane * LANE + 5;
  const { kind, words } = ofContainer(container);
  const start = container.started || container.finished || now;
  const end = container.finished || (container.state === 'running' ? now : start);
  const piece = (from, to, css) =>
    s('rect', { x: x(from), y, width: Math.max(2, x(to) - x(from)), height: LANE - 10, rx: 3, css }, s('title', null, inWords(container)));
  const parts = [];
  if (container.created) parts.push(piece(container.created, container.started || now, 'waits'));
  if (container.started) parts.push(piece(container.started, end, `lives ${kind}`));
  if (kind === 'bad' && end) parts.push(s('text', { x: Math.min(x(end) + 3, WIDTH - 60), y: y + 12, css: 'mark' }, words));
  return parts;
}

function cut(name) {
  return name.length > 17 ? `${name.slice(0, 16)}…` : name;
}

function inWords(container) {
  const begun = container.started ? `, started ${moment(container.started)}` : '';
  const ended = container.finished ? `, ended after ${duration(container.finished - (container.started || container.created))}` : '';
  return `${container.name}, attempt ${container.attempt}: ${ofContainer(container).words}${begun}${ended}`;
}
