// The page shown for a one-time link that is used or expired.

import type { Asked } from './asked.ts'
import { Reply } from './reply.ts'

/** True for a browser's navigation, as opposed to a program. */
export function asksForPage(asked: Asked): boolean {
  return /\btext\/html\b/i.test(asked.header('accept') ?? '')
}

export function usedLinkPage(): Reply {
  return new Reply(text, { 'content-type': 'text/html; charset=utf-8' }, 401)
}

// Contains no part of the request, and loads nothing.
const text = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Reprise: link used</title></head>
<body>
<h1>This link was used already, or is too old</h1>
<p>A link lets one browser in, once, within ten minutes.</p>
<ul>
<li>If this browser was let in before, <a href="../">the dashboard</a> still opens without a link.</li>
<li>Otherwise ask for a new link: start <code>reprise serve</code> again in a terminal (with <code>--open</code> it opens the
link itself), or send <code>POST /v1/links</code> with a token.</li>
</ul>
</body>
</html>
`
