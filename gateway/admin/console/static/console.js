// Keeps a page up to date without a reload, searches while somebody types, and copies commands. Each page works without it.
'use strict';

const every = 2000; // milliseconds between two looks at whether anything changed
const anyway = 30000; // milliseconds after which a page is fetched in any case, for its times and counts

let version = document.body.dataset.version;
let fetched = Date.now();
let fetching = null;

// replaceLive replaces the live parts of the page by those of another document, and says aloud what they want said.
function replaceLive(other) {
  for (const part of document.querySelectorAll('[data-live]')) {
    const next = other.getElementById(part.id);
    if (!next || next.isEqualNode(part)) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const open = [...part.querySelectorAll('details[open]')].map((details) => details.id);
    const fresh = document.adoptNode(next);
    part.replaceWith(fresh);
    for (const id of open) if (id) fresh.querySelector(`#${CSS.escape(id)}`)?.setAttribute('open', '');
    if (focused) {
      const key = focused.id ? `#${CSS.escape(focused.id)}` : focused.getAttribute('href') ? `[href="${CSS.escape(focused.getAttribute('href'))}"]` : null;
      (key && fresh.querySelector(key) || document.getElementById('main')).focus({ preventScroll: true });
    }
    if (fresh.dataset.announce && fresh.dataset.announce !== part.dataset.announce) {
      document.getElementById('announce').textContent = fresh.dataset.announce;
    }
  }
  document.title = other.title;
}

// refresh fetches a page and shows its live parts. A later call ends an earlier one.
async function refresh(url) {
  fetching?.abort();
  const mine = fetching = new AbortController();
  const response = await fetch(url, { signal: mine.signal, headers: { Accept: 'text/html' } });
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
      document.body.classList.remove('lost');
    } catch (error) {
      if (error.name !== 'AbortError' && !document.body.classList.contains('lost')) {
        document.body.classList.add('lost');
        document.getElementById('announce').textContent = 'The gateway does not answer.';
      }
    }
  }
  setTimeout(look, every);
}

if (version && document.querySelector('[data-live]')) {
  document.getElementById('live').hidden = false;
  setTimeout(look, every);
}

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

// Buttons that copy what an element says.
for (const button of document.querySelectorAll('[data-copy]')) {
  if (!navigator.clipboard) break; // only over TLS and on this machine
  button.hidden = false;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    document.getElementById('announce').textContent = 'Copied.';
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
}

// Trying a prompt: the response to the form is a stream of events, each a line of JSON.
const tryIt = document.getElementById('tryit');
if (tryIt) {
  const outcome = document.getElementById('outcome');
  const run = document.getElementById('run');
  const stop = document.getElementById('stop');
  const say = (what) => { document.getElementById('announce').textContent = what; };
  const show = (html) => {
    outcome.replaceChildren(...new DOMParser().parseFromString(html, 'text/html').body.childNodes);
    const question = outcome.querySelector('form');
    if (question) question.addEventListener('submit', answer);
    (question?.querySelector('input, select, a') ?? outcome).focus();
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

  // answer sends what somebody answers to a question, and shows what is wrong with it.
  async function answer(event) {
    event.preventDefault();
    const form = event.target;
    const data = new URLSearchParams(new FormData(form, event.submitter));
    for (const problem of form.querySelectorAll('.problem')) problem.textContent = '';
    for (const field of form.querySelectorAll('[aria-invalid]')) field.removeAttribute('aria-invalid');
    const response = await fetch(`/try/${encodeURIComponent(form.dataset.run)}`, { method: 'POST', body: data });
    if (response.ok) {
      if (form.isConnected) busy();
    } else if (response.status === 422) {
      const { problems } = await response.json();
      for (const [name, text] of Object.entries(problems)) {
        const field = form.querySelector(`[data-field="${CSS.escape(name)}"]`);
        field.querySelector('.problem').textContent = text;
        field.querySelector('input, select').setAttribute('aria-invalid', 'true');
      }
      form.querySelector('[aria-invalid]')?.focus();
    } else {
      fail(await response.text());
    }
  }

  tryIt.addEventListener('submit', async (event) => {
    event.preventDefault();
    running?.abort();
    const mine = running = new AbortController();
    run.disabled = true;
    stop.hidden = false;
    busy();
    try {
      const response = await fetch('/try', { method: 'POST', body: new URLSearchParams(new FormData(tryIt)), signal: mine.signal });
      if (!response.ok) {
        fail(await response.text());
        return;
      }
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        for (const line of lines) {
          const said = JSON.parse(line);
          show(said.html);
          say(said.say);
        }
      }
    } catch (error) {
      fail(error.name === 'AbortError' ? 'Stopped.' : 'The gateway does not answer.');
    } finally {
      run.disabled = false;
      stop.hidden = true;
      if (document.activeElement === document.body) run.focus();
    }
  });
  stop.addEventListener('click', () => running?.abort());

  // Completion of arguments while somebody types.
  for (const input of tryIt.querySelectorAll('[data-argument]')) {
    let pending;
    let asked = null;
    const suggest = async () => {
      asked?.abort();
      const mine = asked = new AbortController();
      const data = new URLSearchParams(new FormData(tryIt));
      data.set('argument', input.dataset.argument);
      try {
        const response = await fetch('/complete', { method: 'POST', body: data, signal: mine.signal });
        if (!response.ok) return;
        const { values } = await response.json();
        input.list.replaceChildren(...values.map((value) => Object.assign(document.createElement('option'), { value })));
      } catch (error) {
        if (error.name !== 'AbortError') throw error;
      }
    };
    const soon = () => {
      clearTimeout(pending);
      pending = setTimeout(suggest, 200);
    };
    input.addEventListener('focus', soon);
    input.addEventListener('input', soon);
  }
}
