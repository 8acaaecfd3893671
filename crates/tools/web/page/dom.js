// Elements from data. What comes from a node is only ever text: there is no markup here.

const SVG = 'http://www.w3.org/2000/svg';

/** An element: attributes by name, `on` for listeners, `css` for classes, children as text or elements. */
export function h(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

/** The same for what is drawn. */
export function s(name, attributes, ...children) {
  return build(document.createElementNS(SVG, name), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value == null || value === false) continue;
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === 'css') {
      element.setAttribute('class', value);
    } else if (name === 'style') {
      for (const [property, what] of Object.entries(value)) element.style.setProperty(property, what);
    } else {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** What is in an element from now on. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Sets a text if it is another one: what does not change is not drawn again. */
export function text(element, value) {
  const words = value == null ? '' : String(value);
  if (element.textContent !== words) element.textContent = words;
}

/** Sets an attribute if it is another one; null takes it away. */
export function attribute(element, name, value) {
  if (value == null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else {
    const words = value === true ? '' : String(value);
    if (element.getAttribute(name) !== words) element.setAttribute(name, words);
  }
}

/** Brings the children of an element into an order, and moves only those that stand elsewhere. */
export function arrange(parent, wanted) {
  let at = parent.firstChild;
  for (const child of wanted) {
    if (child === at) {
      at = at.nextSibling;
    } else {
      parent.insertBefore(child, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Calls what was asked for several times once, with the next picture. */
export function onFrame(work) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      work();
    });
  };
}

/** Calls when what is typed has paused. */
export function onPause(work, pause = 150) {
  let timer = 0;
  return (...what) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...what), pause);
  };
}

/** A list of names and what they are; what is unknown is left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value != null && value !== '' && value !== false);
  return h('dl', { css: 'facts' }, known.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

/** A part of a view, with its heading. */
export function card(title, ...children) {
  return h('section', { css: 'card' }, h('h2', null, title), children);
}

/** A table: the heads are words, or words and a class. */
export function table(caption, heads, rows) {
  const head = heads.map((what) => {
    const [words, css] = Array.isArray(what) ? what : [what, null];
    return h('th', { scope: 'col', css }, words);
  });
  const body = rows.map((cells) =>
    h('tr', null, cells.map((cell, n) => {
      const css = Array.isArray(heads[n]) ? heads[n][1] : null;
      return h(n === 0 ? 'th' : 'td', n === 0 ? { scope: 'row', css } : { css }, cell);
    })),
  );
  return h('div', { css: 'wide', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', null, h('caption', { css: 'hidden' }, caption), h('thead', null, h('tr', null, head)), h('tbody', null, body)));
}

/** A state as a coloured word: the colour says nothing that the word does not. */
export function badge(kind, words) {
  return h('span', { css: `badge ${kind}` }, words);
}
