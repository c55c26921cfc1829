// The pages of documentation that this package has, for readers without a file system: the Markdown of docs and of the skill.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface PackagePage {
  /** Its path in the package: 'docs/guides/jobs.md'. */
  readonly path: string
  readonly title: string
  readonly text: string
}

const root = fileURLToPath(new URL('../../', import.meta.url))

/** The paths of all pages; none in a single binary, which has no files. Pages that only the repository has are not among them. */
export function pagePaths(): string[] {
  return ['docs', 'skills']
    .filter((folder) => existsSync(root + folder))
    .flatMap((folder) =>
      readdirSync(root + folder, { recursive: true, encoding: 'utf8' })
        .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
        .filter((path) => path.endsWith('.md') && !/^docs\/(?:decisions\/|mutation|proofs)/.test(path))
        .sort(),
    )
}

/** The page at a path of `pagePaths`, or null: another path is never read. */
export function readPage(path: string): PackagePage | null {
  if (!pagePaths().includes(path)) return null
  const text = readFileSync(root + path, 'utf8')
  const [, title = path] = /^# (.*)$/m.exec(text) ?? []
  return { path, title: title.replaceAll('`', ''), text }
}
