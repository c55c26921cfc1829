// The known files of a tree, by folder. A brief has a digest of the metadata of all its files, and the digest of their
// contents at that time; a second scan needs no more. The details list each file separately; they are loaded once, when the
// metadata of a folder has changed. A folder can have several briefs, because commands read different files of it.
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

/** The stored form. */
export interface StoredBriefs {
  readonly briefs: readonly (readonly [folder: string, ...looksAndDigests: string[]])[]
}
export type StoredDetails = readonly (readonly [folder: string, files: string])[]

const briefsMax = 4

export class SeenFolders {
  readonly #briefs = new Map<string, readonly Brief[]>()
  readonly #load: () => Promise<StoredDetails>
  #packed: Promise<Map<string, string>> | null = null
  /** Folders whose details were loaded. */
  readonly #details = new Map<string, Map<string, SeenFile>>()
  #hasNew = false

  /** `load` returns the details of the briefs; files without details are read again. */
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

  /** True if there is information that is not stored yet. */
  get hasNew(): boolean {
    return this.#hasNew
  }

  /** The digest of the folder's files for this metadata, if known. */
  digestOf(folder: string, look: string): string | null {
    return this.#briefs.get(folder)?.find((brief) => brief.look === look)?.digest ?? null
  }

  keep(folder: string, look: string, digest: string): void {
    const others = this.#briefs.get(folder)?.filter((brief) => brief.look !== look) ?? []
    this.#briefs.set(folder, [{ look, digest }, ...others].slice(0, briefsMax))
    this.#hasNew = true
  }

  /** The known files by name. Changes are made through `keepFile`. */
  async filesOf(folder: string): Promise<ReadonlyMap<string, SeenFile>> {
    const known = this.#details.get(folder)
    if (known) return known
    const text = (await this.#texts()).get(folder) ?? ''
    const files = this.#details.get(folder) ?? unpacked(text)
    this.#details.set(folder, files)
    return files
  }

  /** Null: the file must be read again. `filesOf` was called for the folder before. */
  keepFile(folder: string, name: string, file: SeenFile | null): void {
    const files = this.#details.get(folder)!
    if (file) files.set(name, file)
    else if (!files.delete(name)) return
    this.#hasNew = true
  }

  /** Excludes files and folders that no longer exist. */
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
