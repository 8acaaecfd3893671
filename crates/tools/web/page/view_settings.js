// The configuration in force, and what the runtime says of itself.

import { card, fill, h, onPause } from './dom.js';
import { ask } from './live.js';
import { tree } from './tree.js';

export const title = 'Settings';

export function open(root, { query, remember }) {
  const leaving = new AbortController();
  const field = h('input', { type: 'search', id: 'filter', value: query.get('filter') ?? '', placeholder: 'key or value', autocomplete: 'off' });
  const body = h('div', null, h('p', { css: 'dim' }, 'Loading.'));
  root.append(h('h1', null, 'Settings'), h('form', { css: 'controls', on: { submit: (event) => event.preventDefault() } }, h('label', { for: 'filter' }, 'Filter'), field), body);
  let answer = null;
  const draw = () => {
    if (!answer) return;
    fill(body,
      card('Current configuration', answer.text ? h('pre', { css: 'toml', tabindex: '0' }, toml(answer.text, field.value)) : h('p', { css: 'dim' }, 'This endpoint does not report its configuration.')),
      answer.status && card('Status', tree(answer.status, 'status', 3)));
  };
  field.addEventListener('input', onPause(() => {
    remember({ filter: field.value });
    draw();
  }));
  ask('/api/settings', leaving.signal).then((found) => {
    answer = found;
    draw();
  }).catch((error) => leaving.signal.aborted || fill(body, h('p', { css: 'notice' }, error.message)));
  return {
    on() {},
    stop() {
      leaving.abort();
    },
  };
}

/** The lines that hold the words, under the tables they are in. */
function toml(text, filter) {
  const wanted = filter.toLowerCase();
  const shown = [];
  let table = '';
  let isTold = true;
  for (const line of text.split('\n')) {
    const isTable = /^\s*\[/.test(line);
    if (isTable) {
      table = line;
      isTold = false;
    }
    if (!`${table}\n${line}`.toLowerCase().includes(wanted)) continue;
    if (!isTable && !isTold) shown.push(paint(table));
    isTold = true;
    shown.push(paint(line));
  }
  return shown;
}

function paint(line) {
  const css = /^\s*\[/.test(line) ? 'table-line' : /^\s*#/.test(line) ? 'dim' : null;
  const pair = css ? null : /^(\s*[\w."-]+)(\s*=\s*)(.*)$/.exec(line);
  return h('div', { css }, pair ? [h('span', { css: 'key' }, pair[1]), pair[2], h('span', { css: 'is-string' }, pair[3])] : line || '\u00a0');
}
