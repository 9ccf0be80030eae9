// What an operator hears who uses the console with the keyboard and the screen reader Orca, in Chromium. Each step waits until what it
// wants to hear has been said, and the script fails on the first that does not hear it. What was said goes to standard output.
//
//   node orca.mjs CHROMIUM CONSOLE
//
// It needs Debian's xvfb, dbus, at-spi2-core, orca, openbox and xdotool. Orca has no speech synthesizer here: what it would say is in its
// debug file.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const [chromium, url] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const patience = 60_000; // milliseconds until something that is not said is missed
const home = mkdtempSync(join(tmpdir(), 'orca-'));
const log = join(home, 'orca.out');
const env = { ...process.env, HOME: home, XDG_RUNTIME_DIR: home, XDG_CONFIG_HOME: join(home, 'config'), XDG_DATA_HOME: join(home, 'data'), XDG_CACHE_HOME: join(home, 'cache') };
const started = [];

// next has something happen outside, and waits until it has.
async function next(what) {
  console.log(`NEXT ${what}`);
  assert.equal((await answers.next()).value, 'done');
}

function start(command, args, stdio = 'ignore') {
  const child = spawn(command, args, { env, stdio });
  started.push(child);
  return child;
}

function write(path, text) {
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text);
}

// begin starts a display, a session bus, a window manager, the screen reader and the browser.
async function begin() {
  writeFileSync(log, '');
  const display = start('Xvfb', ['-displayfd', '3', '-screen', '0', '1280x1000x24', '-nolisten', 'tcp'], ['ignore', 'ignore', 'ignore', 'pipe']);
  env.DISPLAY = `:${String((await once(display.stdio[3])).trim())}`;
  const bus = start('dbus-daemon', ['--session', '--nofork', '--print-address=1'], ['ignore', 'pipe', 'ignore']);
  env.DBUS_SESSION_BUS_ADDRESS = (await once(bus.stdout)).trim();
  start('/usr/libexec/at-spi-bus-launcher', ['--launch-immediately', '--a11y=1', '--screen-reader=1']);
  start('openbox', []);
  write(join(env.XDG_DATA_HOME, 'orca/orca-customizations.py'),
    `import orca.debug, orca.speech, orca.settings\norca.debug.debugFile.reconfigure(line_buffering=True)\norca.speech.init = lambda: None\norca.settings.enableKeyEcho = False\norca.settings.sayAllOnLoad = False\n`);
  write(join(home, 'profile/Default/Preferences'), '{"credentials_enable_service":false,"profile":{"password_manager_enabled":false}}');
  await pause(1000);
  const out = openSync(join(home, 'orca.err'), 'w');
  start('orca', ['--replace', '--disable', 'braille', `--debug-file=${log}`], ['ignore', out, out]);
  closeSync(out);
  await hear(/Screen reader on/);
  start(chromium, ['--no-sandbox', '--test-type', '--force-renderer-accessibility', `--user-data-dir=${join(home, 'profile')}`, '--no-first-run',
    '--no-default-browser-check', '--disable-gpu', '--disable-dev-shm-usage', '--password-store=basic', '--window-size=1200,900',
    '--hide-crash-restore-bubble', '--disable-features=Translate', `${url}/`]);
}

const once = (stream) => new Promise((resolve) => { stream.once('data', (data) => resolve(String(data))); });

let position = 0; // of the log, up to which everything was heard
let heard = []; // since the last key

// listen adds to what was heard.
function listen() {
  if (statSync(log).size <= position) return;
  const text = readFileSync(log).subarray(position).toString();
  const whole = text.lastIndexOf('\n') + 1;
  for (const [, said] of text.slice(0, whole).matchAll(/SPEECH OUTPUT: '((?:(?!\n\d\d:\d\d:\d\d\.\d)[^])*?)' ?(?:\{.*)?\n/g)) {
    const line = said.trim();
    heard.push(line);
    console.log(`        “${line.replaceAll('\n', '⏎').slice(0, 300)}”`);
  }
  position += Buffer.byteLength(text.slice(0, whole));
}

// hear waits until something is said after the last key.
async function hear(...wanted) {
  for (const want of wanted) {
    const end = Date.now() + patience;
    for (;;) {
      listen();
      if (heard.some((said) => want.test(said))) break;
      if (Date.now() > end) assert.fail(`nobody says ${want}, but: ${heard.join(' | ')}`);
      await pause(50);
    }
  }
}

// quiet waits until nothing has been said, and nothing else has happened, for a while.
async function quiet(ms = 500) {
  let since = Date.now();
  for (let size = -1; Date.now() - since < ms;) {
    const now = statSync(log).size;
    if (now !== size) [size, since] = [now, Date.now()];
    await pause(50);
  }
  listen();
}

// press presses keys, one after another, and hears what is said about each.
async function press(...keys) {
  for (const key of keys) {
    await quiet();
    heard = [];
    console.log(`    ${key}`);
    execFileSync('xdotool', ['key', key], { env });
    await quiet();
  }
}

async function type(text, delay = 80) {
  await quiet();
  heard = [];
  console.log(`    types ${text}`);
  execFileSync('xdotool', ['type', '--delay', String(delay), text], { env });
  await quiet();
}

// reach presses a key until something is said.
async function reach(what, key = 'Tab', most = 60) {
  for (let i = 0; i < most; i++) {
    await press(key);
    if (heard.some((said) => what.test(said))) return;
  }
  assert.fail(`${key} does not lead to ${what}`);
}

// go opens a page.
async function go(path) {
  await press('ctrl+l');
  await type(`${url}${path}`, 5);
  await press('Delete', 'Return');
  await hear(/document web/, /Finished loading/);
}

const steps = {
  async 'signs in'() {
    await hear(/^region Sign in$/, /^Admin token password text/);
    await press('ctrl+Return');
    await hear(/fill out this field/);
    await type('wrong');
    await press('Return');
    await hear(/^That is not the admin token/);
    await type('open sesame');
    await press('Return');
    await hear(/^Finished loading \d+ reports to fix/);
  },

  async 'walks the overview'() {
    await reach(/^Search prompts by name, title or description entry/);
    await reach(/^table with \d+ rows 4 columns$/);
    await reach(/^Prompts column header/);
  },

  async 'searches'() {
    await go('/prompts');
    await press('slash');
    await hear(/^Name, title or description entry/);
    await type('number 7770');
    await hear(/^1 prompt found$/);
    await reach(/^library.review_07770 link/);
    await press('Return');
    await hear(/^Finished loading library.review_07770/);
  },

  async 'completes an argument and runs the prompt'() {
    await reach(/^tone required entry/);
    await press('Return');
    await hear(/fill out this field/);
    await type('c');
    await hear(/^2 suggestions/);
    await press('Down');
    await hear(/^calm/);
    await press('Down');
    await hear(/^clear/);
    await press('Return');
    await hear(/^clear/);
    await reach(/^Run push button/);
    await press('Return');
    await hear(/^Outcome region/, /^Done: 4 messages/);
    await reach(/^<script>pwned = true<\/script> said/, 'Down');
    await reach(/^assistant image heading level 3/, 'Down');
    await reach(/^user audio heading level 3/, 'Down');
    await reach(/^file:\/\/\/notes.txt/, 'Down');
  },

  async 'answers what a server asks'() {
    await go('/prompt?name=up.ask');
    await reach(/^Run push button/);
    await press('Return');
    await hear(/^form The server asks$/, /^Your name entry/, /^The server asks: Who are you/);
    await reach(/^Answer push button/);
    await press('Return');
    await hear(/^invalid entry/, /^At least 18. A value is required/);
    await type('41');
    await press('Return');
    await hear(/^Done: 1 message/);
  },

  async 'is told that an upstream died, once, and that it is back'() {
    await go('/');
    await quiet(5000); // what follows is not of this page
    heard = [];
    await next('desk dies');
    await hear(/^Upstream desk is down/);
    await pause(10_000); // some refreshes later
    listen();
    assert.equal(heard.length, 1, `what is said about one upstream: ${heard.join(' | ')}`);
    await next('desk returns');
    await hear(/^\d+ reports to fix/);
  },

  async 'drains an upstream and lets it serve again'() {
    await go('/upstreams');
    await reach(/^Drain desk/);
    await press('Return');
    await reach(/^Drain desk push button/);
    await press('Return');
    await hear(/^desk is drained/);
    await press('Return');
    await hear(/^desk serves again/);
  },

  async 'views as somebody'() {
    await go('/prompts');
    await reach(/^View as editable combo box/);
    await type('user:b');
    await hear(/^1 suggestion/);
    await press('Down');
    await hear(/^user:bob/);
    await press('Return', 'Return');
    await hear(/^Finished loading Prompts: \d+ found/);
    await reach(/^You see what user:bob sees/, 'Down');
    await go('/prompt?name=library.ledger_00006&as=user:bob');
    await reach(/^Does user:bob see it\? heading level 2/, 'h');
    await reach(/^No, from library/, 'Down');
  },

  async 'loads a configuration with a mistake'() {
    await go('/configuration');
    await next('a mistake is made');
    await reach(/^Reload push button/);
    await press('Return');
    await hear(/^The last configuration was refused/);
    await reach(/Invalid team name/, 'Down');
    await next('it is corrected');
    await go('/configuration');
    await reach(/^Reload push button/);
    await press('Return');
    await hear(/^Finished loading Configuration: in use/);
  },
};

process.on('exit', () => {
  for (const child of started.reverse()) child.kill();
  rmSync(home, { recursive: true, force: true, maxRetries: 10 });
});
await begin();
for (const [name, step] of Object.entries(steps)) {
  console.log(name);
  await step();
}
process.exit(0);
