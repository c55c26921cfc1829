// Resumable ingestion of a paged API. Kill it at item 847 of 2,000 and run it again: the first 846 are not done twice.
//
//   npx reprise run examples/papers.ts

import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'reprise'
import { job } from 'reprise/job'

interface Paper {
  readonly doi: string
  readonly title: string
}

/** Stands for a real API: 2,000 papers, 50 per page. */
const pubmed = {
  async list(page = '0'): Promise<{ items: Paper[]; next: string | null }> {
    await sleep(1)
    const at = Number(page)
    const items = Array.from({ length: 50 }, (_, i) => ({
      doi: `10.1000/${at * 50 + i + 1}`,
      title: `Paper ${at * 50 + i + 1}`,
    }))
    return { items, next: at < 39 ? String(at + 1) : null }
  },
}

/** Stands for your database. */
export const saved: string[] = []

export const papers = job('papers', {
  source: async function* (cursor: string | undefined, context) {
    for (let page = cursor; ; ) {
      const { items, next } = await pubmed.list(page)
      yield* items
      if (!next) return
      page = next
      context.cursor(page) // all that was yielded so far lies before this page: a resumed run starts here
    }
  },
  key: (paper) => paper.doi, // done once, skipped for good: across crashes, restarts and daily runs
  concurrency: 8,
  rate: { max: 1000, per: '1s' },
  retry: { attempts: 4 },
  each: async (paper, context) => {
    await sleep(1, undefined, { signal: context.signal })
    saved.push(paper.doi)
  },
})

if (process.argv[1]?.endsWith('papers.ts')) {
  const rp = await open()
  const run = await rp.run(papers, { report: 'auto', signals: true })
  console.log(await run.result())
  await rp.close()
}
