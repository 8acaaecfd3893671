// Plots on canvas, and the words for those who do not see them.

import { h, onFrame } from './dom.js';
import { clock } from './format.js';
import { KEPT, known } from './store.js';

const inks = new Map();
const probe = h('span', { hidden: true });

/** The colour that a name has in the style sheet, in light and dark. */
export function colour(name) {
  if (!inks.has(name)) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    inks.set(name, getComputedStyle(probe).color);
  }
  return inks.get(name);
}

/** Light has become dark, or dark light. */
export function forgetColours() {
  inks.clear();
}

/** A canvas as large as its element, in the screen's own points. */
function ready(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !height) return null;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

/** A line as small as a word: `values` are the newest last. */
export function spark(canvas, values, ink) {
  const area = ready(canvas);
  if (!area || values.length < 2) return;
  const { pen, width, height } = area;
  const top = Math.max(...values, Number.EPSILON);
  const step = width / (SPARK - 1);
  const from = width - (values.length - 1) * step;
  pen.beginPath();
  values.forEach((value, n) => pen.lineTo(from + n * step, height - 1 - (value / top) * (height - 3)));
  pen.strokeStyle = ink;
  pen.lineWidth = 1.25;
  pen.stroke();
  pen.lineTo(width, height);
  pen.lineTo(from, height);
  pen.globalAlpha = 0.16;
  pen.fillStyle = ink;
  pen.fill();
  pen.globalAlpha = 1;
}

/** So many points has a small line. */
export const SPARK = 60;

/**
 * A plot over time of one or more series.
 *
 * `series`: [{name, ink, of: point => value}], `points()` gives the points with their `time`, `limit()` a line
 * that is drawn across, `show` writes a value.
 */
export class Plot {
  constructor({ title, series, points, show, limit = () => null }) {
    Object.assign(this, { title, series, points, show, limit });
    this.canvas = h('canvas', { css: 'plot', role: 'img' });
    this.now = h('span', { css: 'now' });
    this.hint = h('p', { css: 'hint', hidden: true });
    const legend = series.length > 1 && h('ul', { css: 'legend' }, series.map(({ name, ink }) => h('li', { css: `ink-${ink}` }, name)));
    this.element = h('figure', { css: 'figure' },
      h('figcaption', null, h('span', null, title), this.now), h('div', { css: 'frame' }, this.canvas, this.hint), legend);
    this.at = null;
    this.draw = onFrame(() => this.paint());
    this.canvas.addEventListener('pointermove', (event) => {
      this.at = event.offsetX;
      this.draw();
    });
    this.canvas.addEventListener('pointerleave', () => {
      this.at = null;
      this.draw();
    });
    this.size = new ResizeObserver(() => this.draw());
    this.size.observe(this.canvas);
  }

  stop() {
    this.size.disconnect();
  }

  paint() {
    const points = this.points();
    const interval = known.hello?.interval_ms ?? 2000;
    const end = points.at(-1)?.time ?? Date.now();
    const begin = Math.max(end - (KEPT - 1) * interval, Math.min(points[0]?.time ?? end, end - SHORTEST));
    const values = (of) => points.map((point) => of(point));
    const limit = this.limit();
    const all = this.series.flatMap(({ of }) => values(of)).filter((value) => value != null);
    const top = roundUp(Math.max(limit ?? 0, ...all, Number.EPSILON));
    this.tell(points, all);
    const area = ready(this.canvas);
    if (!area) return;
    const { pen, width, height } = area;
    const x = (time) => ((time - begin) / (end - begin)) * width;
    const y = (value) => height - 16 - (value / top) * (height - 28);
    this.grid(pen, width, y, top);
    for (const { ink, of } of this.series) line(pen, points, of, x, y, colour(ink), interval);
    if (limit) {
      pen.setLineDash([4, 3]);
      rule(pen, y(limit), width, colour('bad'));
      pen.setLineDash([]);
    }
    pen.fillStyle = colour('dim');
    pen.font = FONT;
    pen.fillText(clock(begin), 2, height - 3);
    const last = clock(end);
    pen.fillText(last, width - pen.measureText(last).width - 2, height - 3);
    this.point(pen, points, x, height);
  }

  grid(pen, width, y, top) {
    pen.fillStyle = colour('dim');
    pen.font = FONT;
    for (const part of [1, 0.5, 0]) {
      rule(pen, y(top * part), width, colour('line'));
      if (part) pen.fillText(this.show(top * part), 2, y(top * part) - 3);
    }
  }

  /** What stands under the pointer. */
  point(pen, points, x, height) {
    this.hint.hidden = this.at == null || points.length === 0;
    if (this.hint.hidden) return;
    const nearest = points.reduce((best, point) => (Math.abs(x(point.time) - this.at) < Math.abs(x(best.time) - this.at) ? point : best));
    pen.fillStyle = colour('dim');
    pen.fillRect(x(nearest.time), 0, 1, height - 14);
    const words = this.series.map(({ name, of }) => `${this.series.length > 1 ? `${name} ` : ''}${this.show(of(nearest))}`);
    this.hint.textContent = `${clock(nearest.time)}  ${words.join(', ')}`;
  }

  tell(points, all) {
    const last = points.at(-1);
    const inWords = (join, named) => this.series.map(({ name, of }) => `${named && this.series.length > 1 ? `${name} ` : ''}${this.show(of(last))}`).join(join);
    const brief = last ? inWords(' / ', false) : '';
    if (this.now.textContent !== brief) this.now.textContent = brief;
    const words = last ? inWords(', ', true) : 'no data yet';
    const highest = all.length ? `, maximum ${this.show(Math.max(...all))} in the last minutes` : '';
    this.canvas.setAttribute('aria-label', `${this.title}: ${words}${highest}`);
  }
}

/** As much time as a plot shows at least. */
const SHORTEST = 120_000;

const FONT = '11px system-ui, sans-serif';

function rule(pen, y, width, ink) {
  pen.strokeStyle = ink;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, Math.round(y) + 0.5);
  pen.lineTo(width, Math.round(y) + 0.5);
  pen.stroke();
}

/** A gap in the points is a gap in the line. */
function line(pen, points, of, x, y, ink, interval) {
  let run = [];
  const finish = () => {
    if (run.length === 0) return;
    pen.beginPath();
    for (const [time, value] of run) pen.lineTo(x(time), y(value));
    pen.strokeStyle = ink;
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.lineTo(x(run.at(-1)[0]), y(0));
    pen.lineTo(x(run[0][0]), y(0));
    pen.globalAlpha = 0.14;
    pen.fillStyle = ink;
    pen.fill();
    pen.globalAlpha = 1;
    run = [];
  };
  for (const point of points) {
    const value = of(point);
    if (value == null || (run.length && point.time - run.at(-1)[0] > interval * 5)) finish();
    if (value != null) run.push([point.time, value]);
  }
  finish();
}

/** The next number that is easy to read: 1, 2, 2.5 or 5 times a power of ten, of 1,024 for large ones. */
function roundUp(value) {
  if (value >= 2048) {
    const unit = 1024 ** Math.floor(Math.log(value) / Math.log(1024));
    return roundUp(Math.min(value / unit, 1024)) * unit;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].find((step) => step * power >= value) * power;
}
