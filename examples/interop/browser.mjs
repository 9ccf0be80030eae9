// Stands for the browser that a client opens: its person signs in, and the client hears of it at its callback.
//
//   node browser.mjs URL
import { signIn } from './signin.mjs';

const url = new URL(process.argv[2]);
const { status } = await fetch(await signIn(url, 'alice', url.searchParams.get('redirect_uri')));
if (status !== 200) throw new Error(`the client's callback answers ${status}`);
