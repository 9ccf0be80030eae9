// The Inspector's page in a browser, connected directly as in inspector.mjs, counts the prompts of a list.
//
//   node inspector_count.mjs CHROMIUM PAGE ENDPOINT
//
// It prints how many prompts the page shows after its first call, and on all pages of the list together, as {"first": N, "all": N}.
import { launch } from './launch.mjs';

const [chromium, url, endpoint] = process.argv.slice(2);
const browser = await launch(chromium);
const page = await browser.newPage();
await page.addInitScript(() => localStorage.setItem('lastConnectionType', 'direct'));
await page.goto(`${url}/?${new URLSearchParams({ transport: 'streamable-http', serverUrl: endpoint })}`);
const button = (name) => page.getByRole('button', { name, exact: true });
await button('Connect').click();
await button('Disconnect').waitFor();
await page.getByRole('tab', { name: 'Prompts' }).click();
await button('List Prompts').click();
const names = page.getByRole('tabpanel').locator('span.truncate');
await names.first().waitFor();
const first = await names.count();

let all = first;
const more = button('List More Prompts');
while (await more.isVisible()) {
  const before = await names.first().innerText();
  await more.click();
  await names.first().filter({ hasNotText: before }).waitFor(); // the next page takes the place of the one before
  all += await names.count();
}
console.log(JSON.stringify({ first, all }));
await browser.close();
