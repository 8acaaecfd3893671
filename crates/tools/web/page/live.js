// Streams of events from the server, and questions to it.

import { linked, take } from './store.js';

const KINDS = ['hello', 'node', 'pods', 'history', 'usage', 'event', 'pulls', 'gone'];

/** A page that is looked at again within this time goes on as it was. */
const HIDDEN_FOR = 30_000;

/** Who was refused asks again after this time. */
const REFUSED_FOR = 3000;

/**
 * A stream of events, open while somebody looks at the page: a browser has few connections to one server, and a
 * page that was left may be kept by it with all of its own.
 *
 * `takers` take the data of each kind; `tell` hears of `lost`, `refused` and `paused`. What it gives ends it.
 */
export function stream(path, takers, tell) {
  let source = null;
  let timer = 0;
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const pause = () => {
    if (!source) return;
    close();
    tell('paused');
  };
  const open = () => {
    clearTimeout(timer);
    if (source || document.hidden) return;
    const opened = new EventSource(path);
    source = opened;
    for (const [kind, taker] of Object.entries(takers)) {
      opened.addEventListener(kind, (event) => source === opened && taker(JSON.parse(event.data)));
    }
    opened.addEventListener('error', () => {
      if (source !== opened) return;
      if (opened.readyState !== EventSource.CLOSED) return tell('lost');
      close();
      tell('refused');
      timer = setTimeout(open, REFUSED_FOR);
    });
  };
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(pause, HIDDEN_FOR);
    else open();
  };
  document.addEventListener('visibilitychange', look);
  addEventListener('pagehide', pause);
  addEventListener('pageshow', look);
  open();
  return () => {
    close();
    document.removeEventListener('visibilitychange', look);
    removeEventListener('pagehide', pause);
    removeEventListener('pageshow', look);
  };
}

/** Work that is done again when asked to: never twice at once, and no sooner than `pause` after the last time. */
export function again(work, pause) {
  let isBusy = false;
  let isDue = false;
  const run = async () => {
    if (isBusy) {
      isDue = true;
      return;
    }
    isBusy = true;
    isDue = false;
    await work();
    setTimeout(() => {
      isBusy = false;
      if (isDue) run();
    }, pause);
  };
  return run;
}

/** Hears of the node from now on. */
export function connect() {
  const takers = Object.fromEntries(KINDS.map((kind) => [kind, (data) => take(kind, data)]));
  stream('/api/live', takers, (what) => {
    if (what === 'paused') return linked('paused');
    linked('lost', 'the web server does not respond');
    if (what === 'refused') why().then((words) => linked('lost', words));
    return undefined;
  });
}

async function why() {
  try {
    const answer = await fetch('/api/settings');
    if (answer.status === 401) return 'this browser has no session: open the address with its token again';
    return answer.ok ? 'the limit of open pages is reached: close one of them' : `the server responded with status ${answer.status}`;
  } catch {
    return 'the web server does not respond';
  }
}

/** Asks the server. What it refuses is an error with its words. */
export async function ask(path, signal) {
  const answer = await fetch(path, { signal });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.error ?? `the server responded with status ${answer.status}`);
  return body;
}
