// What is known of the files of a tree, by folder. In brief: a digest of how all its files looked, and the digest of what they
// held then; this is all that a second look needs. In detail: each file by itself, which is asked for only when a folder looks
// otherwise, and is then fetched once. A folder has several briefs, for commands look at different files of it.
//
//   detail of a folder: (name NUL look NUL digest NUL)*

import { readdirSync } from 'node:fs'
import { join } from 'node:path'

export interface SeenFile {
  readonly look: string
  readonly digest: string
}

interface Brief {
  readonly look: string
  readonly digest: string
}

/** As it is stored. */
export interface StoredBriefs {
  readonly briefs: readonly (readonly [folder: string, ...looksAndDigests: string[]])[]
}
export type StoredDetails = readonly (readonly [folder: string, files: string])[]

const briefsMax = 4

export class SeenFolders {
  readonly #briefs = new Map<string, readonly Brief[]>()
  readonly #load: () => Promise<StoredDetails>
  #packed: Promise<Map<string, string>> | null = null
  /** Those whose details were asked for. */
  readonly #details = new Map<string, Map<string, SeenFile>>()
  #hasNew = false

  /** `load` gives the details that belong to the briefs; what it fails to give is read again. */
  constructor({ briefs }: StoredBriefs = { briefs: [] }, load: () => Promise<StoredDetails> = async () => []) {
    this.#load = load
    for (const [folder, ...texts] of briefs) {
      const known = Array.from({ length: texts.length >> 1 }, (_, i) => ({
        look: texts[2 * i]!,
        digest: texts[2 * i + 1]!,
      }))
      this.#briefs.set(folder, known)
    }
  }

  /** Whether there is something that was not stored before. */
  get hasNew(): boolean {
    return this.#hasNew
  }

  /** The digest of the folder's files, if they look as they did once. */
  digestOf(folder: string, look: string): string | null {
    return this.#briefs.get(folder)?.find((brief) => brief.look === look)?.digest ?? null
  }

  keep(folder: string, look: string, digest: string): void {
    const others = this.#briefs.get(folder)?.filter((brief) => brief.look !== look) ?? []
    this.#briefs.set(folder, [{ look, digest }, ...others].slice(0, briefsMax))
    this.#hasNew = true
  }

  /** Its files by name. What is kept there is kept; each is told by `keepFile`. */
  async filesOf(folder: string): Promise<ReadonlyMap<string, SeenFile>> {
    const known = this.#details.get(folder)
    if (known) return known
    const text = (await this.#texts()).get(folder) ?? ''
    const files = this.#details.get(folder) ?? unpacked(text)
    this.#details.set(folder, files)
    return files
  }

  /** Null: it must be read again. The folder's files were asked for before. */
  keepFile(folder: string, name: string, file: SeenFile | null): void {
    const files = this.#details.get(folder)!
    if (file) files.set(name, file)
    else if (!files.delete(name)) return
    this.#hasNew = true
  }

  /** Without files and folders that are not there any more. */
  async stored(root: string): Promise<{ readonly briefs: StoredBriefs; readonly details: StoredDetails }> {
    const texts = new Map(await this.#texts())
    for (const [folder, files] of this.#details) texts.set(folder, packed(root, folder, files))
    const details = [...texts].filter(([folder, text]) => text !== '' && namesIn(root, folder) !== null)
    const there = new Set(details.map(([folder]) => folder))
    const briefs = [...this.#briefs]
      .filter(([folder]) => there.has(folder))
      .map(([folder, known]) => [folder, ...known.flatMap(({ look, digest }) => [look, digest])] as const)
    return { briefs: { briefs }, details }
  }

  #texts(): Promise<Map<string, string>> {
    this.#packed ??= this.#load().then(
      (details) => new Map(details),
      () => new Map(),
    )
    return this.#packed
  }
}

function packed(root: string, folder: string, files: ReadonlyMap<string, SeenFile>): string {
  const there = namesIn(root, folder)
  let text = ''
  for (const [name, { look, digest }] of files) if (there?.has(name)) text += `${name}\0${look}\0${digest}\0`
  return text
}

function unpacked(text: string): Map<string, SeenFile> {
  const texts = text.split('\0')
  const files = new Map<string, SeenFile>()
  for (let i = 0; i + 2 < texts.length; i += 3) files.set(texts[i]!, { look: texts[i + 1]!, digest: texts[i + 2]! })
  return files
}

function namesIn(root: string, folder: string): ReadonlySet<string> | null {
  try {
    return new Set(readdirSync(join(root, folder)))
  } catch {
    return null
  }
}
