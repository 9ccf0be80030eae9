// Keeps a page up to date without a reload, searches while somebody types, and copies commands. Each page works without it.
'use strict';

const edited = document.getElementById('file'); // a prompt's file, which somebody may edit now
const every = edited ? 500 : 2000; // milliseconds between two looks at whether anything changed
const anyway = edited ? 2000 : 30000; // milliseconds after which a page is fetched in any case, for its times and counts

let version = document.body.dataset.version;
let fetched = Date.now();
let fetching = null;

// say has a screen reader say something, also what it said last.
function say(what) {
  const place = document.getElementById('announce');
  place.textContent = '';
  setTimeout(() => { place.textContent = what; }, 50);
}

// notice says something and shows it to everybody: for 5 seconds or, if it stays, until endNotice.
let ending;
function notice(what, stays) {
  say(what);
  document.getElementById('announce').className = 'notice';
  clearTimeout(ending);
  if (!stays) ending = setTimeout(endNotice, 5000);
}

function endNotice() {
  document.getElementById('announce').className = 'unseen';
}

// key finds an element again in another version of its page, in the row that is about the same thing.
function key(element) {
  const row = element.closest('[data-upstream], [data-team], [data-prompt]');
  const of = row ? Object.entries(row.dataset).map(([name, value]) => `[data-${name}="${CSS.escape(value)}"]`)[0] : '';
  const href = element.getAttribute('href');
  if (element.id) return `#${CSS.escape(element.id)}`;
  return href && `${of} [href="${CSS.escape(href)}"]`;
}

// sameThing reports whether two nodes are about the same thing, so that one may become the other: not a row that of another upstream.
function sameThing(a, b) {
  return a.nodeName === b.nodeName && a.childNodes.length === b.childNodes.length && a.id === b.id &&
    ['upstream', 'team', 'prompt'].every((name) => a.dataset?.[name] === b.dataset?.[name]);
}

// change makes a node like another one. What is the same stays where it is, with the focus, and with the place where somebody reads.
function change(node, next) {
  if (node.isEqualNode(next)) return;
  if (node.nodeType === Node.TEXT_NODE && next.nodeType === Node.TEXT_NODE) {
    node.data = next.data;
    return;
  }
  if (node.nodeType !== Node.ELEMENT_NODE || !sameThing(node, next)) {
    node.replaceWith(document.importNode(next, true));
    return;
  }
  // What somebody opened stays open.
  for (const { name } of [...node.attributes]) if (!next.hasAttribute(name) && name !== 'open') node.removeAttribute(name);
  for (const { name, value } of next.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  [...node.childNodes].forEach((child, i) => change(child, next.childNodes[i]));
}

// local shows the times of a document in the reader's own zone, and in UTC beside the pointer.
function local(root) {
  for (const time of root.querySelectorAll('time')) {
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  }
}
local(document);

// replaceLive makes the live parts of the page like those of another document, and says aloud what they want said.
function replaceLive(other) {
  local(other);
  for (const part of document.querySelectorAll('[data-live]')) {
    const next = other.getElementById(part.id);
    if (!next || next.isEqualNode(part)) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const again = focused && key(focused);
    const said = part.dataset.announce;
    change(part, next);
    if (focused && document.activeElement !== focused) {
      (again && document.querySelector(again) || document.getElementById('main')).focus({ preventScroll: true });
    }
    if (next.dataset.announce && next.dataset.announce !== said) say(next.dataset.announce);
  }
  document.title = other.title;
  const fields = document.getElementById('fields');
  const next = other.getElementById('fields');
  if (fields && next && fields.dataset.fields !== next.dataset.fields) { // the file has other arguments now
    const values = new FormData(tryIt);
    for (const field of next.querySelectorAll('textarea')) field.value = values.get(field.name) ?? '';
    fields.replaceWith(document.adoptNode(next));
    completeFields();
  }
}

// refresh fetches a page and shows its live parts. A later call ends an earlier one.
async function refresh(url) {
  fetching?.abort();
  const mine = fetching = new AbortController();
  const given = edited && tryIt ? { method: 'POST', body: new URLSearchParams(new FormData(tryIt)) } : {};
  const response = await fetch(url, { ...given, signal: mine.signal, headers: { Accept: 'text/html' } });
  if (response.redirected && new URL(response.url).pathname === '/sign-in') {
    location.reload();
    return;
  }
  const other = new DOMParser().parseFromString(await response.text(), 'text/html');
  if (mine.signal.aborted) return;
  version = other.body.dataset.version || version;
  fetched = Date.now();
  replaceLive(other);
}

// look asks whether anything changed, for as long as the page can be seen.
async function look() {
  if (document.visibilityState === 'visible') {
    try {
      const response = await fetch('/changes', { headers: { Accept: 'application/json' } });
      if (response.status === 403) {
        location.reload(); // the session has ended
        return;
      }
      const now = await response.json();
      if (now.version !== version || Date.now() - fetched > anyway) await refresh(location.href);
      if (document.body.classList.contains('lost')) {
        document.body.classList.remove('lost');
        document.getElementById('live').hidden = false;
        endNotice();
      }
    } catch (error) {
      if (error.name !== 'AbortError' && !document.body.classList.contains('lost')) {
        document.body.classList.add('lost');
        document.getElementById('live').hidden = true;
        notice('The gateway does not answer.', true);
      }
    }
  }
  setTimeout(look, every);
}

if (version && document.querySelector('[data-live]')) {
  document.getElementById('live').hidden = false;
  setTimeout(look, every);
}

// A link that signs in needs no button, once somebody sees the page.
if (!document.prerendering) document.querySelector('form#link')?.submit();

// Search while somebody types.
const find = document.getElementById('find');
if (find) {
  let pending;
  const search = () => {
    const url = `/prompts?${new URLSearchParams([...new FormData(find)].filter(([, value]) => value))}`;
    history.replaceState(null, '', url);
    refresh(url).catch((error) => { if (error.name !== 'AbortError') find.submit(); });
  };
  find.elements.q.addEventListener('input', () => {
    clearTimeout(pending);
    pending = setTimeout(search, 150);
  });
  find.elements.team.addEventListener('change', search);
}

// A slash leads to the search, as in many places.
document.addEventListener('keydown', (event) => {
  const field = document.getElementById('q');
  if (event.key === '/' && field && !event.target.closest('input, textarea, select')) {
    event.preventDefault();
    field.focus();
  }
});

// What a browser shows in a bubble about a field, screen readers are not told.
document.addEventListener('invalid', (event) => say(event.target.validationMessage), true);

// offers shows suggestions beneath a field while somebody types, as ARIA's combobox has them: screen readers are not told of those of a
// datalist. Ask returns them for what the field has.
function offers(input, ask) {
  const list = document.createElement('ul');
  list.id = `${input.id}-values`;
  list.className = 'values';
  list.hidden = true;
  list.setAttribute('role', 'listbox');
  list.setAttribute('aria-label', 'Suggestions');
  const place = Object.assign(document.createElement('div'), { className: 'offers' });
  input.replaceWith(place);
  place.append(input, list);
  input.removeAttribute('list');
  input.setAttribute('aria-autocomplete', 'list');
  input.setAttribute('aria-controls', list.id);
  const isLine = input.nodeName === 'INPUT'; // which may be a combobox; a field of several lines may not
  if (isLine) input.setAttribute('role', 'combobox');
  let at = -1; // the option that is marked

  const open = (isOpen) => {
    list.hidden = !isOpen;
    if (isLine) input.setAttribute('aria-expanded', isOpen);
    mark(-1);
  };
  const mark = (index) => {
    list.children[at]?.setAttribute('aria-selected', 'false');
    at = index;
    const option = list.children[at];
    option?.setAttribute('aria-selected', 'true');
    option?.scrollIntoView({ block: 'nearest' });
    if (option) input.setAttribute('aria-activedescendant', option.id); else input.removeAttribute('aria-activedescendant');
  };
  const take = (option) => {
    input.value = option.dataset.value;
    open(false);
  };
  const show = (values) => {
    list.replaceChildren(...values.map((value, i) => {
      const option = Object.assign(document.createElement('li'), { id: `${list.id}-${i}`, textContent: value, dir: 'auto' });
      option.dataset.value = value;
      option.setAttribute('role', 'option');
      option.setAttribute('aria-selected', 'false');
      option.addEventListener('mousedown', (event) => event.preventDefault()); // the focus stays in the field
      option.addEventListener('click', () => take(option));
      return option;
    }));
    const any = values.length > 0 && document.activeElement === input;
    open(any);
    if (any) say(values.length === 1 ? '1 suggestion.' : `${values.length} suggestions.`);
  };

  open(false);

  let asked = 0;
  let pending;
  const soon = (delay) => {
    clearTimeout(pending);
    const mine = ++asked;
    pending = setTimeout(async () => {
      const values = (await ask()).filter((value) => value !== input.value);
      if (mine === asked) show(values);
    }, delay);
  };
  const stop = () => {
    clearTimeout(pending);
    asked++;
    open(false);
  };
  input.addEventListener('input', () => soon(200));
  input.addEventListener('blur', stop);
  input.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const moves = list.hidden && input.value.includes('\n'); // the arrows go from line to line
    if (step && !event.altKey && !moves) {
      event.preventDefault();
      const last = list.children.length - 1;
      if (list.hidden) soon(0);
      else if (at < 0) mark(step > 0 ? 0 : last);
      else mark(at + step > last ? 0 : at + step < 0 ? last : at + step);
    } else if (event.key === 'Enter' && at >= 0 && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      take(list.children[at]);
    } else if (event.key === 'Escape' && !list.hidden) {
      event.preventDefault();
      stop();
    }
  });
}

// Principals to choose from: a user and any number of groups, with commas between them.
for (const input of document.querySelectorAll('input[list]')) {
  const all = [...input.list.options].map((option) => option.value);
  offers(input, () => {
    const begin = input.value.lastIndexOf(',') + 1;
    const part = input.value.slice(begin).trim().toLowerCase();
    const before = begin === 0 && !part.startsWith('user:') ? 'user:somebody,' : input.value.slice(0, begin); // whoever is in a group
    return all.filter((value) => value.toLowerCase().includes(part)).slice(0, 100)
      .map((value) => (value.startsWith('group:') ? before : input.value.slice(0, begin)) + value);
  });
}

// What is done with an upstream, without a reload: the focus goes to what can be done next.
document.addEventListener('submit', async (event) => {
  const form = event.target;
  if (!form.matches('.act')) return; // others load a page
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, event.submitter));
  try {
    const response = await fetch(form.action, { method: 'POST', body });
    if (response.redirected && new URL(response.url).pathname === '/sign-in') {
      location.reload();
      return;
    }
    const other = new DOMParser().parseFromString(await response.text(), 'text/html');
    if (response.ok) {
      const row = `[data-upstream="${CSS.escape(body.get('upstream'))}"]`;
      replaceLive(other);
      if (!event.submitter.isConnected) document.querySelector(`${row} .act button`)?.focus();
      const { done, failed } = event.submitter.dataset;
      const cause = document.querySelector(`${row} .act`) && document.querySelector(`${row} .cause`); // only one that is down has a button
      notice(cause ? failed + cause.textContent : done); // the page may look as before
    } else {
      document.getElementById('main').replaceWith(document.adoptNode(other.getElementById('main')));
      document.getElementById('main').focus();
    }
  } catch {
    notice('The gateway does not answer.');
  }
});

// Buttons that copy what an element says.
for (const button of document.querySelectorAll('[data-copy]')) {
  if (!navigator.clipboard) break; // only over TLS and on this machine
  button.hidden = false;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    say('Copied.');
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
}

// Trying a prompt: the response to the form has the outcome.
const tryIt = document.getElementById('tryit');
if (tryIt) {
  const outcome = document.getElementById('outcome');
  const run = document.getElementById('run');
  const stop = document.getElementById('stop');
  const show = (html) => {
    outcome.replaceChildren(...new DOMParser().parseFromString(html, 'text/html').body.childNodes);
    outcome.focus();
  };
  const fail = (message) => {
    const card = document.createElement('p');
    card.className = 'card bad';
    card.textContent = message;
    outcome.replaceChildren(card);
    say(message);
  };
  const busy = () => {
    const text = document.createElement('p');
    text.className = 'busy';
    text.textContent = 'Running …';
    outcome.replaceChildren(text);
  };
  let running = null;

  tryIt.addEventListener('submit', async (event) => {
    event.preventDefault();
    running?.abort();
    const mine = running = new AbortController();
    run.disabled = true;
    stop.hidden = false;
    busy();
    const long = setTimeout(() => say('Running.'), 1000);
    try {
      const response = await fetch('/try', { method: 'POST', body: new URLSearchParams(new FormData(tryIt)), signal: mine.signal });
      if (!response.ok) {
        fail(await response.text());
        return;
      }
      const said = await response.json();
      clearTimeout(long);
      show(said.html);
      say(said.say);
    } catch (error) {
      fail(error.name === 'AbortError' ? 'Stopped.' : 'The gateway does not answer.');
    } finally {
      clearTimeout(long);
      run.disabled = false;
      stop.hidden = true;
      if (document.activeElement === document.body) run.focus();
    }
  });
  stop.addEventListener('click', () => running?.abort());
  tryIt.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) tryIt.requestSubmit();
  });
  // Fields grow with their text, by the style sheet in most browsers.
  if (!CSS.supports('field-sizing', 'content')) {
    tryIt.addEventListener('input', ({ target }) => {
      target.style.height = 'auto';
      target.style.height = `${target.scrollHeight + 2}px`;
    });
  }

  let pending;
  if (edited) {
    tryIt.addEventListener('input', () => {
      clearTimeout(pending);
      pending = setTimeout(() => refresh(location.href).catch(() => {}), 150); // the next look tries again
    });
  }
}

// completeFields has arguments completed while somebody types.
function completeFields() {
  for (const input of tryIt?.querySelectorAll('[data-argument]') ?? []) {
    let asked = null;
    offers(input, async () => {
      asked?.abort();
      const mine = asked = new AbortController();
      const data = new URLSearchParams(new FormData(tryIt));
      data.set('argument', input.dataset.argument);
      try {
        const response = await fetch('/complete', { method: 'POST', body: data, signal: mine.signal });
        return response.ok ? (await response.json()).values : [];
      } catch {
        return []; // asked again, or the gateway does not answer
      }
    });
  }
}
completeFields();
