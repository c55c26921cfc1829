// Types of plants.mjs, for the tests.

export interface Plant {
  readonly in: string
  readonly seedsMax: number
  readonly foundAt?: number
  readonly simulation?: string
}

export const plants: Readonly<Record<string, Plant>>
