// The connection to the server: one stream of events, and questions.

import { linked, take } from './store.js';

const KINDS = ['hello', 'node', 'pods', 'history', 'usage', 'event', 'pulls', 'gone'];

let source = null;

/** Opens the stream, and opens it again when it breaks. A hidden page has none: it would cost for nothing. */
export function connect() {
  document.addEventListener('visibilitychange', () => (document.hidden ? disconnectSoon() : open()));
  open();
}

/** A page that is looked at again within this time goes on as it was. */
const HIDDEN_FOR = 30_000;

let leaving = 0;

function disconnectSoon() {
  clearTimeout(leaving);
  leaving = setTimeout(() => {
    source?.close();
    source = null;
    linked('paused');
  }, HIDDEN_FOR);
}

function open() {
  clearTimeout(leaving);
  if (source) return;
  const opened = new EventSource('/api/live');
  source = opened;
  for (const kind of KINDS) {
    opened.addEventListener(kind, (event) => take(kind, JSON.parse(event.data)));
  }
  opened.addEventListener('error', () => {
    if (source !== opened) return;
    linked('lost', 'the server of this page does not answer');
    // Refused for good: EventSource itself does not try again.
    if (opened.readyState === EventSource.CLOSED) {
      source = null;
      why().then((words) => linked('lost', words));
      setTimeout(() => document.hidden || open(), 3000);
    }
  });
}

async function why() {
  try {
    const answer = await fetch('/api/settings');
    if (answer.status === 401) return 'this browser has no session here: open the address with its token again';
    return answer.ok ? 'as many pages are open as the server takes' : `the server answers ${answer.status}`;
  } catch {
    return 'the server of this page does not answer';
  }
}

/** Asks the server. What it refuses is an error with its words. */
export async function ask(path, signal) {
  const answer = await fetch(path, { signal });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.error ?? `the server answers ${answer.status}`);
  return body;
}
