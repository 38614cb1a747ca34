import{r as e,t}from"./chunk-QB3YPZ4I-CZT59H5o.js";import"./chunk-TU62E6Q5-C97LUkbT.js";import"./mermaid.core-D6horHak.js";import"./chunk-HFQBQIA3-DO-CcEo6.js";import"./chunk-M57EVK23-DbiOSqJf.js";import"./chunk-DQASFODM-B57i3MWJ.js";import"./chunk-LEVMRMFU-BcLAnLIJ.js";import"./chunk-AXFCVDMN-ilrzUZwu.js";import"./chunk-X4PVCEUW-COxq97FH.js";import"./chunk-STOXU5M4-D1nDmCSv.js";import"./chunk-R3KSYZAL-BoEg1Kjb.js";import"./chunk-6MUBBAK2-BOZcnH6U.js";import"./chunk-BG4553SI-BIOr5VhF.js";import"./chunk-X3CZISLH-BW6uUDd5.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({styles:n(t=>`${e(t)}
  .swimlane.cluster:not([data-color-id]) rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};