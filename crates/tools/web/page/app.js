// The frame: which view is shown, what the keys do, whether the node answers.

import { attribute, fill, h, text } from './dom.js';
import { connect } from './live.js';
import { forgetColours } from './plot.js';
import { can, known, listen } from './store.js';
import * as images from './view_images.js';
import * as logs from './view_logs.js';
import * as manifests from './view_manifests.js';
import * as networks from './view_networks.js';
import * as node from './view_node.js';
import * as pod from './view_pod.js';
import * as pods from './view_pods.js';
import * as settings from './view_settings.js';

const VIEWS = { node, pods, pod, logs, images, networks, settings, manifests };

const root = document.getElementById('view');

let shown = null;
let shows = 0;

/** The view of an address: /pods, /pod/ID, / for the node. */
function viewOf(path) {
  const [, name, id] = path.split('/');
  return { name: Object.hasOwn(VIEWS, name) ? name : 'node', id: id ? decoded(id) : null };
}

function decoded(words) {
  try {
    return decodeURIComponent(words);
  } catch {
    return words;
  }
}

/** Shows what the address says. */
function show(focus) {
  const { name, id } = viewOf(location.pathname);
  shown?.stop();
  root.replaceChildren();
  root.className = `view-${name}`;
  const view = VIEWS[name];
  document.title = `${view.title} – ${known.hello?.host ?? 'orlop'}`;
  for (const link of document.querySelectorAll('#views a')) {
    attribute(link, 'aria-current', link.dataset.view === (name === 'pod' ? 'pods' : name) ? 'page' : null);
  }
  shows += 1;
  const mine = shows;
  // A view that was left has nothing more to write.
  const note = (values) => mine === shows && remember(values);
  shown = view.open(root, { id, query: new URLSearchParams(location.search), remember: note });
  if (focus) {
    window.scrollTo(0, 0);
    const heading = root.querySelector('h1');
    heading?.setAttribute('tabindex', '-1');
    (heading ?? root).focus({ preventScroll: true });
  }
}

/** Goes to another view. */
function go(address) {
  history.pushState(null, '', address);
  show(true);
}

/** Writes what a view shows into its address, so that it can be shared. */
function remember(values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of [value].flat()) if (one != null && one !== '' && one !== false) query.append(name, one);
  }
  const words = query.toString();
  history.replaceState(null, '', words ? `${location.pathname}?${words}` : location.pathname);
}

document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || link.origin !== location.origin || link.getAttribute('href').startsWith('#')) return;
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || link.target) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
addEventListener('popstate', () => show(true));

const KEYS = [
  ['1 … 7', 'open a view'],
  ['/', 'go to the filter or search field'],
  ['j, k', 'go to the next or previous pod'],
  ['Enter', 'open the selected item'],
  ['Esc', 'leave a field or close a panel'],
  ['t', 'switch between light and dark colours'],
  ['?', 'show these shortcuts'],
];

const help = document.getElementById('help');

function explain() {
  if (help.open) return help.close();
  const close = h('button', { type: 'button', on: { click: () => help.close() } }, 'Close');
  const letters = h('input', { type: 'checkbox', checked: kept('keys') !== 'off', on: { change: () => keep('keys', letters.checked ? 'on' : 'off') } });
  fill(help, h('h2', { id: 'help-title' }, 'Keyboard shortcuts'),
    h('dl', { css: 'facts' }, KEYS.map(([key, what]) => h('div', null, h('dt', null, h('kbd', null, key)), h('dd', null, what)))),
    h('p', null, h('label', null, letters, ' enable shortcuts of one letter')), close);
  help.showModal();
}

document.getElementById('keys').addEventListener('click', explain);

document.addEventListener('keydown', (event) => {
  const field = event.target.closest?.('input, select, textarea');
  if (event.key === 'Escape' && field) return field.blur();
  if (field || help.open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.length === 1 && event.key !== '?' && kept('keys') === 'off') return;
  const views = [...document.querySelectorAll('#views li:not([hidden]) a')];
  if (/^[1-9]$/.test(event.key) && views[event.key - 1]) return go(views[event.key - 1].pathname);
  if (event.key === '/') {
    const search = root.querySelector('input[type=search]');
    if (search) {
      event.preventDefault();
      search.focus();
    }
    return;
  }
  if (event.key === '?') return explain();
  if (event.key === 't') return nextTheme();
  shown?.key?.(event);
});

const themes = document.getElementById('theme');

/** Light and dark by the system, until somebody says otherwise. */
function dress(theme) {
  attribute(document.documentElement, 'data-theme', theme);
  const dark = theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  text(themes, dark ? 'Light' : 'Dark');
  themes.setAttribute('aria-label', dark ? 'switch to light colours' : 'switch to dark colours');
  forgetColours();
  shown?.on('theme');
}

function nextTheme() {
  const theme = themes.textContent === 'Dark' ? 'dark' : 'light';
  keep('theme', theme);
  dress(theme);
}

/** What somebody has chosen, in browsers that keep anything. */
function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // For this page alone.
  }
}

themes.addEventListener('click', nextTheme);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dress(kept('theme')));

const LINKS = {
  connecting: 'connecting',
  live: 'live',
  gone: 'the node does not respond',
  lost: 'disconnected',
  paused: 'paused',
};

function tellLink() {
  const link = document.getElementById('link');
  text(link, known.link === 'live' ? `${known.hello.host}: live` : LINKS[known.link]);
  link.className = known.link;
  link.title = known.why;
}

listen((what) => {
  if (what === 'link') tellLink();
  if (what === 'hello') {
    document.querySelector('[data-view=manifests]').parentElement.hidden = !can('manifests');
    document.title = document.title.replace(/ – .*/, ` – ${known.hello.host}`);
  }
  shown?.on(what);
});

dress(kept('theme'));
show(false);
tellLink();
connect();
