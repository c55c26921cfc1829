// Types of campaign.mjs, for the tests.

export interface CampaignReport {
  readonly done: number
  readonly events: number
  readonly ms: number
  readonly failure: null | { readonly seed: number; readonly message: string; readonly command: string }
  readonly recoveries: number
  /** Entries replayed by a recovery, as a share of the interval of the policy: the median and the 99th of 100. */
  readonly replayMedian: number
  readonly replay99: number
}

export interface CampaignOptions {
  readonly from?: number
  readonly seeds: number
  readonly plant?: string | null
  /** `main` unless the plant has another. */
  readonly simulation?: string
  readonly threads?: number
  readonly onSeed?: (done: number) => void
}

export function runCampaign(options: CampaignOptions): Promise<CampaignReport>
