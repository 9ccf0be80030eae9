// Opens a page in a window of a width, and prints by how many pixels it scrolls sideways and which elements stick out.
//
//   node width.mjs CHROMIUM URL WIDTH
import { launch } from './launch.mjs';

const [chromium, url, width] = process.argv.slice(2);
const browser = await launch(chromium);
const page = await browser.newPage({ viewport: { width: Number(width), height: 800 } });
await page.goto(url);
const result = await page.evaluate(() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  const wide = [...document.querySelectorAll('body *')].filter((element) => element.getBoundingClientRect().right > clientWidth);
  return { sideways: scrollWidth - clientWidth, wide: wide.map((element) => element.outerHTML.slice(0, 200)) };
});
console.log(JSON.stringify(result));
await browser.close();
