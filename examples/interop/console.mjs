// What an operator does in the console, in a browser. Each step checks what it sees, and the script fails on the first that does not
// see what it should. What happens outside of the browser is asked for on standard output.
//
//   node console.mjs CHROMIUM CONSOLE OTHER_ORIGIN LINK [short]
//
// With SCREENSHOTS, a folder, it leaves pictures of each state there, in both themes and three widths. With short, axe-core
// checks the light theme only.
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import axe from 'axe-core';
import { launch } from './launch.mjs';

const [chromium, url, other, link, short] = process.argv.slice(2);
const shots = process.env.SCREENSHOTS;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const browser = await launch(chromium);
const complaints = [];
let recorded; // the promise that a page no longer says that the audit log cannot be written
let expected = 0; // complaints of the browser about refusals that a step provokes

// next has something happen outside, and waits until it has.
async function next(what) {
  console.log(`NEXT ${what}`);
  assert.equal((await answers.next()).value, 'done');
}

async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(message.text()); });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('dialog', (dialog) => { complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.setDefaultTimeout(15_000);
  return page;
}

async function signIn(page, token = 'open sesame') {
  await page.getByLabel('Admin token').fill(token);
  await page.keyboard.press('Enter');
}

// fits checks that nothing scrolls sideways, in both themes and at the widths of phones, and that each control has a name.
async function fits(page, state) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1280, 390, 320]) {
      await page.setViewportSize({ width, height: 900 });
      const seen = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        const name = (e) => e.labels?.length || e.ariaLabel || e.textContent.trim() || e.type === 'hidden' || e.ariaHidden;
        return {
          sideways: scrollWidth - clientWidth,
          wide: [...document.querySelectorAll('body *:not(.unseen, .skip, .unseen *)')]
            .filter((e) => e.getBoundingClientRect().right > clientWidth + 1).map((e) => e.outerHTML.slice(0, 150)),
          nameless: [...document.querySelectorAll('a, button, input, select, summary')].filter((e) => !name(e)).map((e) => e.outerHTML.slice(0, 150)),
          landmarks: ['header', 'main', 'footer', 'h1'].filter((tag) => document.querySelectorAll(`body ${tag}`).length !== 1),
        };
      });
      assert.deepEqual(seen, { sideways: 0, wide: [], nameless: [], landmarks: [] }, `${state} at ${width} pixels`);
      if (shots) await page.screenshot({ path: `${shots}/${state}-${colorScheme}-${width}.png`, fullPage: true });
    }
    if (short && colorScheme === 'dark') continue;
    await isAccessible(page, `${state} in ${colorScheme}`, colorScheme === 'dark' ? { runOnly: ['color-contrast'] } : {});
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await isSpoken(page, state);
}

// isAccessible checks a page with the rules of axe-core: those of WCAG 2.2, levels A and AA, and its best practices, or some of them.
async function isAccessible(page, state, which) {
  if (!await page.evaluate(() => 'axe' in window)) await page.evaluate(axe.source);
  const { violations } = await page.evaluate((rules) => window.axe.run(document, { resultTypes: ['violations'], ...rules }), which);
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' ')}`);
  assert.deepEqual(found, [], `${state}: what axe-core finds`);
}

// The roles of what people operate, as assistive technology is told.
const controls = new Set(['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'radio', 'listbox', 'slider', 'DisclosureTriangle']);

// spoken returns what assistive technology is told of a page: the nodes of Chromium's accessibility tree that are not ignored.
async function spoken(page) {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send('Accessibility.getFullAXTree');
  await session.detach();
  return nodes.filter((node) => !node.ignored).map((node) => ({
    id: node.nodeId, children: node.childIds ?? [],
    role: node.role?.value, name: (node.name?.value ?? '').trim(), description: (node.description?.value ?? '').trim(),
    properties: Object.fromEntries((node.properties ?? []).map(({ name, value }) => [name, value.value])),
  }));
}

// isSpoken checks that each control has a role and a name, that there is one place for what changes, and that the page can be walked by
// its landmarks and headings.
async function isSpoken(page, state) {
  const nodes = await spoken(page);
  assert.deepEqual(nodes.filter(({ role, name }) => controls.has(role) && !name), [], `${state}: controls without a name`);
  const of = (role) => nodes.filter((node) => node.role === role);
  for (const role of ['banner', 'main', 'contentinfo']) assert.equal(of(role).length, 1, `${state}: landmarks ${role}`);
  assert.equal(of('heading').filter(({ properties }) => properties.level === 1).length, 1, `${state}: headings of level 1`);
  const announcements = of('status').filter(({ properties }) => properties.live === 'polite');
  assert.equal(announcements.length, 1, `${state}: places that are read aloud when they change`);
}

// isAnnounced waits until something is read aloud.
const isAnnounced = (page, what) => page.locator('#announce', { hasText: what }).waitFor({ state: 'attached' });

// isLive waits until the page's script runs, without which a key pressed at once would have no effect.
const isLive = (page) => page.locator('#live').waitFor();

const steps = {
  async 'signs in'(page) {
    await page.goto(`${url}/prompts?q=ledger`);
    assert.equal(await page.title(), 'Sign in – promptweir');
    await fits(page, 'sign-in');
    expected++; // a 403
    await signIn(page, 'wrong');
    await page.getByRole('alert').filter({ hasText: 'That is not the admin token.' }).waitFor();
    await signIn(page);
    await page.waitForURL(`${url}/prompts?q=ledger`);
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
    assert.equal(await page.evaluate(() => document.cookie), '');
  },

  async 'searches among 10 000'(page) {
    await page.goto(`${url}/`);
    await page.locator('h1', { hasText: /reports? to fix/ }).waitFor();
    await page.getByRole('link', { name: 'Prompts', exact: true }).click();
    await page.locator('#total', { hasText: /^10.00\d prompts$/ }).waitFor();
    await isLive(page);
    const field = page.getByLabel('Name, title or description');
    const begun = Date.now();
    await field.pressSequentially('number 7770', { delay: 20 });
    await page.locator('#total', { hasText: '1 prompt found' }).waitFor();
    console.log(`found among 10 000 while somebody typed, ${Date.now() - begun} ms after the first of 11 keys`);
    assert.deepEqual(await page.locator('[data-prompt]').evaluateAll((hits) => hits.map((hit) => hit.dataset.prompt)), ['library.review_07770']);
    await fits(page, 'found');
    await field.fill('calm');
    await page.locator('#total', { hasText: '10 000 prompts found' }).waitFor();
    await page.getByRole('link', { name: 'Next' }).click();
    await page.getByText('Page 2 of 200').waitFor();
    await isLive(page);
    await fits(page, 'search');
    await field.fill('no such words');
    await page.getByText('Nothing found.').waitFor();
    await fits(page, 'nothing');
  },

  async 'opens one, completes an argument and runs it'(page) {
    await page.goto(`${url}/prompts?q=review_07770`);
    assert.equal(await page.title(), 'Prompts: 1 found – promptweir');
    await page.getByRole('link', { name: 'library.review_07770', exact: true }).click();
    await page.getByRole('heading', { name: 'Who sees it' }).waitFor();
    await isLive(page);
    await fits(page, 'prompt');
    const tone = page.getByLabel('tone');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.waitForFunction(() => document.querySelector('#announce').textContent === document.querySelector('#arg-0').validationMessage);
    await tone.fill('c');
    await isAnnounced(page, '2 suggestions.');
    assert.deepEqual(await page.getByRole('option').allInnerTexts(), ['calm', 'clear']);
    await fits(page, 'suggestions');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowDown'); // round to the first one
    const field = (await spoken(page)).find(({ role, name }) => role === 'textbox' && name.startsWith('tone'));
    assert.deepEqual([field.properties.multiline, field.properties.required, 'activedescendant' in field.properties], [true, true, true]);
    assert.ok((await spoken(page)).some(({ role, name, properties }) => role === 'option' && name === 'calm' && properties.selected), 'which one is marked');
    await page.keyboard.press('Enter');
    assert.equal(await tone.inputValue(), 'calm');
    assert.equal(await page.getByRole('option').count(), 0);
    await next('nothing was got');
    const low = (await tone.boundingBox()).height;
    await tone.fill('calm\n\n  and clear\n');
    assert.ok((await tone.boundingBox()).height > low + 30, 'the field grows with its text');
    await page.keyboard.press('Control+Enter');
    await page.locator('.said', { hasText: '<script>pwned = true</script> said' }).waitFor();
    await next('line breaks arrived');
    await page.waitForFunction(() => document.querySelector('.message img')?.naturalWidth === 1);
    await page.waitForFunction(() => document.querySelector('.message audio')?.readyState > 0);
    await page.locator('.message .place', { hasText: 'file:///notes.txt' }).waitFor();
    await isAnnounced(page, 'Done: 4 messages.');
    await fits(page, 'result');
  },

  async 'sees an upstream die and return without a reload'(page) {
    await page.goto(`${url}/`);
    await page.evaluate(() => { window.sameDocument = true; });
    await next('desk dies');
    const card = page.locator('[data-upstream="desk"]');
    await card.getByText('down', { exact: true }).waitFor();
    await page.locator('[data-team="support"]', { hasText: '1 down' }).waitFor();
    assert.match(await card.innerText(), /unreachable since .*connection refused[^]*Start the server/);
    assert.match(await page.title(), /^Upstream desk is down/);
    await isAnnounced(page, 'Upstream desk is down');
    assert.ok(Date.parse(await card.locator('time').innerText()), 'a time in the zone of the browser');
    await fits(page, 'overview');
    await page.setViewportSize({ width: 320, height: 900 });
    const table = (await spoken(page)).map(({ role }) => role).filter((role) => ['table', 'columnheader', 'rowheader'].includes(role));
    assert.deepEqual(table, ['table', ...Array(4).fill('columnheader'), ...Array(4).fill('rowheader')], 'teams are a table in a narrow window, too');
    await page.setViewportSize({ width: 1280, height: 900 });
    const nodes = await spoken(page);
    const { children } = nodes.find(({ role, properties }) => role === 'status' && properties.live === 'polite');
    assert.match(nodes.find(({ id }) => id === children[0]).name, /Upstream desk is down/, 'what is read aloud');
    await card.getByRole('button', { name: 'Connect now to desk' }).click();
    await page.locator('#announce.notice', { hasText: /Not connected to desk: unreachable since .*connection refused/ }).waitFor(); // seen as well as heard
    await next('desk returns');
    await card.waitFor({ state: 'detached', timeout: 40_000 });
    assert.ok(await page.evaluate(() => window.sameDocument), 'the page was not loaded again');
    await page.goto(`${url}/prompts?q=desk`);
    await next('change desk');
    await page.locator('[data-prompt="desk.fresh"]').waitFor();
    await page.goto(`${url}/upstreams`);
    await page.locator('[data-upstream="desk"] .spark').waitFor();
    await fits(page, 'upstreams');
    const kept = (spoil) => page.evaluate(async ([of, name]) => {
      const card = document.querySelector('[data-upstream="up"]'); // library has a link to the same team
      const link = card.querySelector('a');
      link.focus();
      if (name === 'text') card.querySelector('.condition').lastChild.data = 'stale'; else card.append('another child');
      await refresh(of);
      const now = document.activeElement;
      return [now === link, now.textContent, now.closest('[data-upstream]')?.dataset.upstream, document.querySelector('[data-upstream="up"] .condition').textContent];
    }, [page.url(), spoil]);
    assert.deepEqual(await kept('text'), [true, 'team platform', 'up', 'up'], 'what is the same stays where it is');
    assert.deepEqual(await kept('children'), [false, 'team platform', 'up', 'up'], 'the focus is where it was');
    await page.getByLabel('Search upstreams by name').fill('DES');
    await page.keyboard.press('Enter');
    await page.getByText('1 upstream found').waitFor();
    assert.deepEqual(await page.locator('[data-upstream]').evaluateAll((found) => found.map((card) => card.dataset.upstream)), ['desk']);
  },

  async 'edits a file and sees what clients get'(page) {
    await next('a prompt is written');
    await page.goto(`${url}/prompts?q=notes`);
    await page.getByRole('link', { name: 'notes.draft' }).click();
    await page.locator('#file pre', { hasText: 'Look at {{code}}.' }).waitFor();
    await page.locator('#file .said', { hasText: 'Look at ⟨code⟩.' }).waitFor();
    await isLive(page);
    await fits(page, 'file');
    await page.evaluate(() => { window.sameDocument = true; });
    await page.locator('#arg-0').fill('x := 1\ny := 2');
    await page.locator('#file .said', { hasText: 'Look at x := 1\ny := 2.' }).waitFor();
    await next('it is edited');
    await page.locator('#file .said', { hasText: 'Read x := 1\ny := 2 with care.' }).waitFor();
    assert.equal(await page.locator('#arg-0').inputValue(), 'x := 1\ny := 2');
    await page.locator('#arg-1').waitFor(); // an argument that the file has now
    await page.getByText('A better title', { exact: true }).waitFor();
    await next('a mistake is made in it');
    await page.locator('#file mark', { hasText: 'title: [Wrong]' }).waitFor();
    await page.locator('#file .card.bad', { hasText: 'This text is not served' }).waitFor();
    await page.locator('#file .said', { hasText: 'Read x := 1' }).waitFor();
    await fits(page, 'file-broken');
    await next('it is edited');
    await page.locator('#file mark').waitFor({ state: 'detached' });
    assert.ok(await page.evaluate(() => window.sameDocument), 'the page was not loaded again');
  },

  async 'loses the way'(page) {
    expected++; // a 404
    await page.goto(`${url}/no/such/page`);
    await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
    await fits(page, 'not-found');
  },

  async 'loads a configuration with a mistake'(page) {
    await page.goto(`${url}/configuration`);
    await next('a mistake is made');
    await page.getByRole('button', { name: 'Reload' }).click();
    await page.getByRole('heading', { name: 'The last configuration was refused', level: 2 }).waitFor();
    assert.equal(page.url(), `${url}/configuration#configuration`);
    assert.match(await page.locator('.problems').first().innerText(), /<b>broken/);
    await fits(page, 'refused');
    await page.goto(`${url}/`);
    await page.getByRole('heading', { name: 'The last configuration was refused', level: 2 }).waitFor();
    await fits(page, 'overview-refused');
    await next('it is corrected');
    await page.goto(`${url}/configuration`);
    await page.getByRole('button', { name: 'Reload' }).click();
    await page.getByText(/In use since/).waitFor();
    assert.equal(page.url(), `${url}/configuration`);
  },

  async 'sees that nothing can be recorded'(page) {
    await next('the disk is full');
    await page.goto(`${url}/prompt?name=desk.nothing`);
    await fits(page, 'unlisted');
    await page.goto(`${url}/prompt?name=desk.greet`);
    await page.getByRole('button', { name: 'Run' }).click();
    await isAnnounced(page, 'Done: 1 message.');
    await page.goto(`${url}/`);
    await page.getByRole('heading', { name: 'The audit log cannot be written', level: 2 }).waitFor();
    await fits(page, 'overview-audit');
    await next('there is room');
    // The log is tried again within half a minute, and this page hears of it while the next steps run.
    const waiting = await page.context().newPage();
    await waiting.goto(`${url}/`);
    recorded = waiting.getByRole('heading', { name: 'The audit log cannot be written', level: 2 }).waitFor({ state: 'detached', timeout: 60_000 });
  },

  async 'is told why a get failed'(page) {
    await page.goto(`${url}/prompt?name=library.review_00000`);
    await page.getByLabel('tone').fill(' ');
    await page.evaluate(() => { document.querySelector('#tryit [name=name]').value = 'library.gone'; });
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('heading', { name: 'It failed' }).waitFor();
    await isAnnounced(page, 'It failed: Unknown prompt');
    await fits(page, 'failed');
  },

  async 'looks at the configuration'(page) {
    await page.goto(`${url}/configuration`);
    await page.locator('#file-list', { hasText: /SHA-256 [0-9a-f]{12}/ }).waitFor();
    assert.ok(!(await page.content()).includes('token_sha256'), 'no text of the configuration is shown');
    await fits(page, 'configuration');
  },

  async 'views as somebody'(page) {
    await page.goto(`${url}/prompts`);
    await page.getByLabel('View as').fill('plat');
    await page.getByRole('option', { name: 'user:somebody,group:platform' }).waitFor(); // a group alone is no principal
    await page.getByLabel('View as').fill('user:bob,group:p');
    await page.getByRole('option', { name: 'user:bob,group:platform' }).click();
    assert.equal(await page.getByLabel('View as').inputValue(), 'user:bob,group:platform');
    await page.getByLabel('View as').fill('user:bob,group:ci');
    await page.keyboard.press('Enter');
    await page.getByText('Lists show what user:bob,group:ci sees.').waitFor();
    await page.locator('#total', { hasText: '1002 prompts' }).waitFor();
    await isLive(page);
    await page.getByLabel('Name, title or description').fill('desk');
    await page.locator('#total', { hasText: '2 prompts found' }).waitFor();
    await page.goto(`${url}/prompt?name=library.ledger_00006&as=user:bob`);
    await page.getByText('is not a member of team "platform"').first().waitFor();
    assert.match(await page.locator('.verdict').innerText(), /^\s*No/);
    await fits(page, 'view-as');
    await page.getByRole('link', { name: 'See everything' }).click();
    await page.getByRole('heading', { name: 'Who sees it' }).waitFor();
    expected++; // a 400
    await page.goto(`${url}/prompts?as=bob`);
    await page.getByRole('alert').waitFor();
    await fits(page, 'problem');
  },

  async 'meets a hostile definition'(page) {
    for (const path of ['/prompts?team=strangers', `/prompt?name=${encodeURIComponent('evil.<b>evil')}`, '/']) {
      await page.goto(url + path);
      await page.locator('main').waitFor();
      assert.equal(await page.evaluate(() => [typeof window.pwned, document.querySelectorAll('main img, main script').length].join()), 'undefined,0', path);
      assert.ok(!/[\u202e\u2066]/.test(await page.content()), path);
      await fits(page, `hostile-${path.length}`);
    }
    await page.goto(`${url}/prompt?name=${encodeURIComponent('evil.<b>evil')}`);
    await page.getByText('⟨U+202E⟩⟨U+2066⟩').first().waitFor();
  },

  async 'does all of that by keyboard'(page) {
    await page.goto(`${url}/`);
    const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
    const focused = () => page.evaluate(() => (document.activeElement === document.body ? '' : document.activeElement.innerText || document.activeElement.id));
    await press('Tab');
    assert.equal(await focused(), 'Skip to the content');
    const outlined = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outlined, 'none', 'the focus is visible');
    await press('Enter', '/');
    assert.equal(await focused(), 'q');
    await page.keyboard.type('review_07770');
    await press('Enter');
    await page.waitForURL(/\/prompts\?/);
    await page.locator('[data-prompt="library.review_07770"]').waitFor();
    const reach = async (what) => {
      for (let i = 0; i < 60; i++) {
        if ((await focused()).includes(what)) return;
        await press('Tab');
      }
      assert.fail(`the key Tab does not lead to ${what}`);
    };
    await reach('review_07770');
    await press('Enter');
    await page.getByRole('heading', { name: 'Try it' }).waitFor();
    await isLive(page);
    await reach('arg-0');
    await page.keyboard.type('calm');
    await reach('Run');
    await press('Enter');
    await page.locator('.said', { hasText: '<script>pwned = true</script> said' }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), 'outcome');
    await press('Tab');
    assert.notEqual(await page.evaluate(() => document.activeElement.tagName), 'BODY');
  },

  // Another port of this machine is the same site to a browser, so it sends the cookie along.
  async 'is not commanded by another port'(page) {
    await page.goto(other);
    for (const path of ['/try', '/sign-out', '/-/reload', '/complete', '/sign-in']) {
      await page.goto(other);
      expected += 2; // 403s
      await page.evaluate((to) => fetch(to, { method: 'POST', mode: 'no-cors', credentials: 'include' }).catch(() => {}), url + path);
      const refused = page.waitForNavigation();
      await page.evaluate((to) => {
        const form = Object.assign(document.createElement('form'), { method: 'post', action: to });
        document.body.append(form);
        form.submit();
      }, url + path);
      assert.equal((await refused).status(), 403, path);
    }
    await page.goto(`${url}/`);
    assert.match(await page.locator('h1').innerText(), /reports? to fix/, 'the session goes on');
  },

  async 'sees that the audit log is written again'() {
    await recorded;
  },

  async 'signs out'(page) {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(`${url}/sign-in`);
    await page.goto(`${url}/`);
    assert.equal(await page.title(), 'Sign in – promptweir');
  },

  async 'cannot guess the token'(page) {
    for (let i = 0; i < 12; i++) {
      expected++; // a 403, or a 429
      await signIn(page, `guess ${i}`);
      await page.getByRole('alert').waitFor();
    }
    await page.getByText('Too many tokens came from this address').waitFor();
    await fits(page, 'sign-in-bounded');
  },
};

// Whoever starts a gateway without an admin token opens the link that it prints.
async function opensALink(page, link) {
  await page.goto(link);
  await page.waitForURL(`${new URL(link).origin}/`);
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await page.goto(link); // signed in already
  await page.waitForURL(`${new URL(link).origin}/`);
  const another = await open();
  expected++; // a 403
  await another.goto(link);
  await another.getByRole('alert').filter({ hasText: 'This link was used or has expired' }).waitFor();
  await fits(another, 'link-used');
  await another.context().close();
}

const page = await open();
console.log('opens a link');
await opensALink(await open(), link);
for (const [name, step] of Object.entries(steps)) {
  console.log(name);
  await step(page);
}
const unexpected = complaints.filter((text) => !/^Failed to load resource: the server responded with a status of (400|403|404|422|429)/.test(text));
assert.deepEqual(unexpected, [], 'what the browser complains about');
assert.ok(complaints.length <= expected + unexpected.length, `${complaints.length} refusals, ${expected} expected`);
await browser.close();
process.exit(0);
