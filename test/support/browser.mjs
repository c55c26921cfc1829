// A real browser for tests, from wherever there is one: REPRISE_BROWSER, the PATH, or the npm package, which has one for
// Linux on x64. Where there is none, tests are skipped with the reason.

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']
const cache = fileURLToPath(new URL('../../node_modules/.cache/chromium', import.meta.url))

export async function findBrowser() {
  const named = process.env.REPRISE_BROWSER
  if (named !== undefined && named !== '') {
    if (!existsSync(named)) return { missing: `REPRISE_BROWSER names ${named}, which is not there` }
    return { path: named, env: {}, isPacked: false }
  }
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const found = names.map((name) => join(folder, name)).find((path) => existsSync(path))
    if (found !== undefined) return { path: found, env: {}, isPacked: false }
  }
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return { missing: 'there is no Chromium here: set REPRISE_BROWSER to one' }
  }
  try {
    return await unpack()
  } catch (error) {
    return { missing: `the packed Chromium does not unpack: ${error.message}` }
  }
}

/** Once, into the cache of the repository: it takes seconds. */
async function unpack() {
  mkdirSync(cache, { recursive: true })
  const before = process.env.TMPDIR
  // Before the import: it then unpacks the libraries that a bare image lacks, too, and all of it there.
  process.env.AWS_LAMBDA_JS_RUNTIME ??= 'nodejs22.x'
  process.env.TMPDIR = cache
  try {
    const { default: packed } = await import('@sparticuz/chromium')
    const path = await packed.executablePath()
    const fonts = join(cache, 'fonts.conf')
    // Its own looks for fonts in /tmp, and without any the browser ends at the first text field.
    writeFileSync(fonts, fontsConf)
    return { path, env: { FONTCONFIG_FILE: fonts }, isPacked: true }
  } finally {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  }
}

const fontsConf = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${cache}/fonts/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${cache}/font-cache</cachedir>
</fontconfig>
`

export async function launch(found) {
  if ('missing' in found) throw new Error(found.missing)
  const { path, env, isPacked } = found
  const inherited = Object.entries(process.env).filter(([, value]) => value !== undefined)
  const { FONTCONFIG_PATH: _, ...rest } = Object.fromEntries(inherited)
  const start = () =>
    chromium.launch({
      executablePath: path,
      args: ['--no-sandbox', '--font-render-hinting=none'],
      headless: true,
      env: { ...rest, ...env },
    })
  try {
    return await start()
  } catch (error) {
    if (!isPacked) throw error
    // An unpacking that was killed halfway leaves a file that looks whole.
    rmSync(cache, { recursive: true, force: true })
    await unpack()
    return await start()
  }
}
