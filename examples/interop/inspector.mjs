// The Inspector's page in a browser, connected directly: the page is the MCP client, and what it may send and read is up to
// the browser. Only the Inspector's first generation connects so, later ones go through a server of their own.
//
//   node inspector.mjs CHROMIUM PAGE ENDPOINT TRANSPORT TOKEN PROMPT ARGUMENT VALUE
//
// It prints READY once the prompt is there, waits to be told of a change, and prints what it saw, or the error of a
// connection that failed.
import { launch } from './launch.mjs';

const [chromium, url, endpoint, transport, token, prompt, argument, value] = process.argv.slice(2);
const browser = await launch(chromium);
const page = await browser.newPage();
await page.addInitScript((headers) => {
  localStorage.setItem('lastConnectionType', 'direct');
  localStorage.setItem('lastCustomHeaders', JSON.stringify(headers));
}, [{ name: 'Authorization', value: `Bearer ${token}`, enabled: true }]);
await page.goto(`${url}/?${new URLSearchParams({ transport, serverUrl: endpoint })}`);
await page.getByRole('button', { name: 'Connect', exact: true }).click();

const button = (name) => page.getByRole('button', { name, exact: true });
const panel = page.getByRole('tabpanel');
const error = page.getByText(/^Connection failed: /).first();
await button('Disconnect').or(error).waitFor();
if (await error.isVisible()) {
  await finish({ error: await error.innerText() });
}

await page.getByRole('tab', { name: 'Prompts' }).click();
await button('List Prompts').click();
const names = panel.locator('span.truncate');
await names.first().waitFor();
const prompts = await names.allInnerTexts();

await panel.getByText(prompt, { exact: true }).click();
await panel.locator(`[aria-controls="${argument}"]`).click();
await page.getByPlaceholder(`Enter ${argument}`).fill(value);
await page.keyboard.press('Escape');
await button('Get Prompt').click();
await panel.getByText('{ ... }').click(); // the content of the message
await panel.getByText('text:').waitFor();
const got = await panel.innerText();

console.log('READY');
await page.getByText('notifications/prompts/list_changed').first().waitFor();
await button('Disconnect').click();
await page.getByText('Disconnected').waitFor();
await finish({ prompts, got });

async function finish(result) {
  console.log(JSON.stringify(result));
  await browser.close();
  process.exit(0);
}
