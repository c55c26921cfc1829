// Renders docs/errors.md from the table in src/core/errors.ts, so that the page cannot disagree with the code.
// `npm run docs:errors` writes it; test/errors-doc.test.ts fails when the page is stale.

import { type ErrorCode, errorCodes, explain, type Remedy } from '../src/core/errors.ts'

const remedies: Readonly<Record<Remedy, string>> = {
  retry: 'Try the same again; it may succeed without any change.',
  reload: 'Open or read again, then decide again: the data that you read is out of date.',
  fix: 'Change the input, the code or the setting; the same call would fail again.',
  stop: 'Do not repeat the call: a person, or `reprise verify`, has to investigate.',
}

export function renderErrors(): string {
  const codes = errorCodes().map(explain)
  const sections = (Object.keys(remedies) as Remedy[]).map((remedy) => {
    const rows = codes.filter((kind) => kind.remedy === remedy)
    return [`## ${remedy}`, '', remedies[remedy], '', ...rows.flatMap(section)].join('\n')
  })
  return `${[header(codes.map((kind) => kind.code)), ...sections].join('\n').trimEnd()}\n`
}

function header(codes: readonly ErrorCode[]): string {
  return `<!-- Generated from src/core/errors.ts by \`npm run docs:errors\`. Do not edit by hand. -->

# Errors

Every expected failure is a \`RepriseError\` with a stable \`code\`, a \`hint\` for people, a \`remedy\` for programs, \`data\`, and \`docs\`: its place on
this page, which is part of the package. \`npx reprise explain CODE\` prints the same.
Codes never change their meaning; wording may improve. Look at \`error.code\`, never at the message:

\`\`\`ts
import { isReprise } from 'reprise'

try {
  await counter.append({ type: 'added', by: 2 })
} catch (error) {
  if (!isReprise(error, 'FENCED')) throw error
  // Another owner took the timeline over: open it again and continue from its head.
}
\`\`\`

The codes are grouped below by the next step of the caller. All ${codes.length}: ${[...codes]
    .sort()
    .map((code) => `[${code}](#${code.toLowerCase()})`)
    .join(', ')}.
`
}

function section(kind: { readonly code: ErrorCode; readonly hint: string }): string[] {
  return [`### ${kind.code}`, '', kind.hint, '']
}
