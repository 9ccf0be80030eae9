// Starts the Chromium that is installed, which refuses to run as root with its sandbox.
import { chromium } from 'playwright-core';

export const launch = (executablePath) => chromium.launch({ executablePath, chromiumSandbox: process.getuid() !== 0 });
