// Lists that are read page by page, each page after the last row of the one before it. A page with fewer rows than its limit is
// the last.

type Read<Row> = (last: Row | undefined, limit: number) => readonly Row[] | Promise<readonly Row[]>

/** @example for await (const page of eachPage<Chunk>((last, limit) => list(last?.digest ?? null, limit))) remove(page) */
export async function* eachPage<Row>(read: Read<Row>, limit = 500): AsyncGenerator<readonly Row[]> {
  for (let last: Row | undefined; ; ) {
    const page = await read(last, limit)
    yield page
    if (page.length < limit) return
    last = page.at(-1)
  }
}

export async function* eachRow<Row>(read: Read<Row>, limit?: number): AsyncGenerator<Row> {
  for await (const page of eachPage(read, limit)) yield* page
}
