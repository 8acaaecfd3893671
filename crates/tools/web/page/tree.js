// A JSON value as a tree that folds.

import { h } from './dom.js';

/** So many entries of one value are shown. */
const SHOWN = 500;

/** The tree of a value; what is deeper than `open` is folded, and made when it is unfolded. */
export function tree(value, name = null, open = 2) {
  if (value === null || typeof value !== 'object') {
    return h('div', { css: 'leaf' }, name != null && h('span', { css: 'key' }, `${name}: `), h('span', { css: `is-${typeof value}` }, JSON.stringify(value)));
  }
  const entries = Object.entries(value);
  const brackets = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const inside = h('div', { css: 'branch' });
  const details = h('details', { open: open > 0 }, h('summary', null, h('span', { css: 'key' }, name ?? ''), ` ${brackets}`), inside);
  let filled = false;
  const unfold = () => {
    if (filled || !details.open) return;
    filled = true;
    inside.append(...entries.slice(0, SHOWN).map(([key, entry]) => tree(entry, key, open - 1)));
    if (entries.length > SHOWN) inside.append(h('div', { css: 'dim' }, `${entries.length - SHOWN} more`));
  };
  details.addEventListener('toggle', unfold);
  unfold();
  return details;
}
